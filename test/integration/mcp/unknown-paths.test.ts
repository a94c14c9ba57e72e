/** A 404 of a router or proxy, which knows nothing of sandboxes, is no word about a sandbox. */

import { expect, test } from "vitest";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";

const REPLIES = [
  { name: "a page", headers: { "content-type": "text/html" }, body: "<html>404 Not Found</html>" },
  { name: "a line", headers: { "content-type": "text/plain" }, body: "404 page not found" },
  { name: "nothing", headers: {}, body: "" },
] as const;

/** Of another sandbox than the one for which the host answers by itself. */
const OTHER = { sandbox_id: "i2" };
const NONE = { sandbox_id: undefined };

const TOOLS = [
  { tool: "kill_sandbox", input: OTHER },
  { tool: "get_sandbox", input: OTHER },
  { tool: "connect_sandbox", input: OTHER },
  { tool: "pause_sandbox", input: OTHER },
  { tool: "set_timeout", input: { ...OTHER, timeout_seconds: 60 } },
  { tool: "get_logs", input: OTHER },
  { tool: "run_process", input: { ...OTHER, cmd: "true" } },
  { tool: "read_file", input: { ...OTHER, path: "a" } },
  { tool: "list_snapshots", input: NONE },
  { tool: "list_templates", input: NONE },
  { tool: "build_template", input: { ...NONE, name: "x" } },
  { tool: "delete_snapshot", input: { ...NONE, snapshot_id: "t1" } },
] as const;

test.for(REPLIES.flatMap((reply) => TOOLS.map((row) => ({ ...reply, ...row }))))(
  "$tool is answered 404 with $name",
  async ({ tool, input, headers, body }) => {
    await using remote = await startForeignHost((_, response) => {
      response.writeHead(404, headers).end(body);
    });
    const { isError, text } = await remote.call(tool, input);
    expect([isError, text]).toEqual([
      true,
      expect.stringMatching(/^unimplemented\. The sandbox service answered 404 in a form that/),
    ]);
  },
);

test("a route that is missing beside others is told as before", async () => {
  await using remote = await startForeignHost(({ url }, response) => {
    if (url.endsWith("/pause")) response.writeHead(404).end("404 page not found");
    else answerJson(response, 200, { body: SANDBOX_DETAIL });
  });
  const { isError, text } = await remote.call("pause_sandbox", {});
  expect([isError, text]).toEqual([
    true,
    expect.stringContaining("The sandbox service cannot pause."),
  ]);
});

test("a daemon that does not know how to join files is told from a missing source", async () => {
  const entry = { name: "a", type: "FILE_TYPE_FILE", path: "/a", size: "1", owner: "user" };
  await using remote = await startForeignHost(({ url }, response) => {
    if (url.endsWith("/Stat")) answerJson(response, 200, { body: { entry } });
    else response.writeHead(404).end("404 page not found");
  });
  const input = { sources: ["/a"], destination: "/b" };
  const { isError, text } = await remote.call("compose_files", input);
  expect([isError, text]).toEqual([true, "unimplemented. Join the files by cat with run_process."]);
});
