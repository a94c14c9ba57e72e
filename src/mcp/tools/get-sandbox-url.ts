/** Tool: where a server inside a sandbox is reached from outside. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { TRAFFIC_TOKEN_HEADER } from "../../wire/headers.ts";
import { sandboxIdInput } from "../inputs.ts";
import { asleepNote, sandboxExpiryField } from "../replies/facts.ts";
import { OF_SESSION, recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool, type Suggest } from "../tool.ts";

const MAX_PORT = 65_535;

export const getSandboxUrl = defineTool({
  name: "get_sandbox_url",
  title: "Get the address of a port",
  description:
    "Returns the URL under which a browser or another program outside reaches a server that " +
    "listens on a port in the sandbox. Start the server first, on 0.0.0.0 or localhost, with " +
    "run_process and wait_seconds=0; this call does not check that the server listens. Inside the sandbox use " +
    "localhost instead.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    port: z.int().min(1).max(MAX_PORT).describe("Port in the sandbox."),
  }),
  output: z.object({
    url: z.string(),
    headers: z.array(z.object({ name: z.string(), value: z.string() })).optional(),
    base: z.string().optional(),
    note: z.string(),
    sandbox_expires_at: z.string().optional(),
  }),
  annotations: { ...READ_ONLY, openWorldHint: true },
  async handler({ sandbox_id: sandboxId, port }, context) {
    const { service, signal, suggest } = context;
    const detail = await service.control.get(sandboxId, signal);
    const address = await service.portAddress(sandboxId, port);
    if (address === undefined) {
      const message = "this sandbox service has no address that others can reach";
      const curl = suggest("run_process", "Reach the port from inside with run_process. ");
      const hint = `${curl}The user can start sandbox-mcp serve, which gives ports an address.`;
      throw new SandboxError("failed_precondition", message, { hint });
    }
    const { url, headers, base, isOfSession } = address;
    const notes = [
      isOfSession ? OF_SESSION : "",
      `The server must listen on 0.0.0.0 or localhost, port ${port}.`,
      headers === undefined ? "" : wayByHeaders(base),
      detail.network?.allowPublicTraffic === false ? privateNote(suggest) : "",
      asleepNote(detail, suggest) ?? "",
    ];
    return recordReply({
      url,
      ...(headers !== undefined && {
        headers: Object.entries(headers).map(([name, value]) => ({ name, value })),
      }),
      ...(base !== undefined && { base }),
      note: notes.filter((note) => note !== "").join(" "),
      ...sandboxExpiryField(context, sandboxId),
    });
  },
});

function privateNote(suggest: Suggest): string {
  const open = suggest("create_sandbox", ": one made with public_traffic=true needs none");
  return (
    `The sandbox is private: requests need the header ${TRAFFIC_TOKEN_HEADER} too, whose token ` +
    `the service gave to the client that made it, and no tool returns${open}.`
  );
}

function wayByHeaders(base: string | undefined): string {
  return base === undefined
    ? "Each request must carry these headers."
    : "Where the host of the URL is not known, send requests to base with these headers.";
}
