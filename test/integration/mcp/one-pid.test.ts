/** A daemon that gives every process the same pid: whoever took its place says what it likes. */

import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState } from "../../../src/mcp/state.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startRecorder } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

const { signal } = new AbortController();
const MAX_RUNNING = 128;

test("processes of one pid count one by one against the limit", async () => {
  await using recorder = await startRecorder(({ url }, response) => {
    const isStart = url === "/process.Process/Start";
    response.writeHead(200, { "content-type": `application/${isStart ? "connect+" : ""}json` });
    if (isStart) response.write(envelope('{"event":{"start":{"pid":7}}}'));
    else response.end(JSON.stringify(SANDBOX_DETAIL));
  });
  const { url } = recorder;
  await using service = createService({ url, sandboxUrl: url, apiKey: "secret-key" });
  await using state = startMcpState({
    service: () => service,
    log: createSilentLog(),
    onExit: () => "leave",
  });
  const sandbox = await service.attach("i1", signal);
  const start = () =>
    state.captures.start(sandbox, {
      label: "sleep",
      request: { cmd: "sleep", args: ["60"], env: {}, hasStdin: false },
      user: undefined,
      timeoutMs: undefined,
      signal,
    });
  for (let count = 0; count < MAX_RUNNING; count += 1) await start();
  await expect(start()).rejects.toMatchObject({ code: "resource_exhausted" });
});
