/** A process is told as killed at timeout_seconds only then, whatever ends its stream. */

import { expect, test } from "vitest";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { answerJson } from "../../support/network/recorder.ts";
import { envelope } from "../../support/raw-call.ts";

const STREAM = { "content-type": "application/connect+json" };
const RUNNING = [{ pid: 7, config: { cmd: "/bin/bash", args: ["-l", "-c", "work"] } }];
const LATE = { error: { code: "deadline_exceeded", message: "stream timeout" } };

function event(value: object): Buffer {
  return envelope(JSON.stringify({ event: value }));
}

test.for([{}, { timeout_seconds: 3_600 }])(
  "a deadline of a service on the way is not that of %o",
  async (limit) => {
    let streams = 0;
    await using remote = await startForeignHost(({ url }, response) => {
      if (url.endsWith("/List")) {
        return answerJson(response, 200, { body: { processes: RUNNING } });
      }
      streams += 1;
      response.writeHead(200, STREAM).write(event({ start: { pid: 7 } }));
      const end = { end: { exitCode: 3, exited: true, status: "exit status 3" } };
      const last = streams === 1 ? LATE : {};
      if (streams > 1) response.write(event(end));
      return response.end(envelope(JSON.stringify(last), { flags: 2 }));
    });
    const { text } = await remote.call("run_process", { cmd: "work", ...limit });
    expect(text).toMatch(/^exit_code: 3 /);
  },
);

test("a process whose stream was opened again is told as killed at its limit", async () => {
  let streams = 0;
  await using remote = await startForeignHost(({ url }, response) => {
    if (url.endsWith("/List")) return answerJson(response, 200, { body: { processes: RUNNING } });
    streams += 1;
    response.writeHead(200, STREAM).write(event({ start: { pid: 7 } }));
    if (streams === 1) return response.end();
    const end = { end: { exitCode: -1, exited: false, status: "signal: killed" } };
    const last = Buffer.concat([event(end), envelope("{}", { flags: 2 })]);
    return void setTimeout(() => response.end(last), 1_000);
  });
  const { text } = await remote.call("run_process", { cmd: "work", timeout_seconds: 1 });
  expect(text).toMatch(/^status: killed at timeout_seconds /);
});

test("a process that is killed before its limit is not told as killed at it", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const run = async (cmd: string, timeout_seconds: number) =>
    (await world.call("run_process", { sandbox_id, cmd, timeout_seconds })).text;
  expect(await run("kill -9 $$", 30)).toMatch(/^exit_code: -1 \(ended by signal: killed\) /);
  expect(await run("exec sleep 60", 1)).toMatch(/^status: killed at timeout_seconds /);
});
