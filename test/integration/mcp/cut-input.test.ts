/** Input whose later chunks do not arrive: what came before must not be sent twice. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { writeInput } from "../../../src/mcp/processes/process-input.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson, startRecorder } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

const { signal } = new AbortController();
const CHUNK_BYTES = 256 * 1024;

/** A service whose daemon takes so many calls of input, and is gone then. */
async function startDaemon(calls: number) {
  let taken = 0;
  const recorder = await startRecorder(({ url }, response) => {
    if (url !== "/process.Process/StreamInput") {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(SANDBOX_DETAIL));
    } else if (taken < calls) {
      taken += 1;
      response.writeHead(200, { "content-type": "application/connect+json" });
      response.end(Buffer.concat([envelope("{}"), envelope("{}", { flags: 2 })]));
    } else response.writeHead(503).end();
  });
  const { url } = recorder;
  const service = createService({ url, sandboxUrl: url, apiKey: "secret-key" });
  return {
    service,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await recorder[Symbol.asyncDispose]();
    },
  };
}

test.for([
  { name: "the first chunk has no count", calls: 0, hint: undefined },
  {
    name: "a later chunk counts what came before",
    calls: 1,
    hint: expect.stringMatching(/^The first 262144 of 524288 bytes .*do not send them again/),
  },
])("the fault of $name", async ({ calls, hint }) => {
  await using world = await startDaemon(calls);
  const sandbox = await world.service.attach("i1", signal);
  const bytes = Buffer.alloc(2 * CHUNK_BYTES, "x");
  const error = await writeInput({ sandbox, pid: 7, signal }, bytes, signal).catch(
    (failure: unknown) => failure,
  );
  expect(error).toMatchObject({ code: "unavailable", hint });
});

test.for([
  { code: "not_found", message: "process with pid 7 not found", status: 404 },
  { code: "internal", message: "stdin not enabled or closed", status: 500 },
])("input that ends its process was sent, though nothing is left to close: $code", async (row) => {
  await using remote = await startForeignHost(({ url }, response) => {
    if (url === "/process.Process/StreamInput") {
      response.writeHead(200, { "content-type": "application/connect+json" });
      response.end(Buffer.concat([envelope("{}"), envelope("{}", { flags: 2 })]));
    } else answerJson(response, row.status, { body: { code: row.code, message: row.message } });
  });
  const close = { process_id: "p_7", close: true };
  const sent = await remote.call("send_input", { ...close, data: "x\n" });
  expect(sent.text).toMatch(
    /^sent 2 bytes to p_7 \| stdin was closed already: the process ended, or closed it \| /,
  );
  expect((await remote.call("send_input", { ...close, data: "" })).isError).toBe(true);
});
