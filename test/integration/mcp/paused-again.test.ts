/** Processes that a pause cut off are watched again after a resume, unless it is paused again first. */

import { expect, test } from "vitest";
import type { Sandbox } from "../../../src/client/envd.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

test("a sandbox that is paused again is not woken to watch its processes", async () => {
  await using world = await startMcpWorld();
  const { captures } = world.state;
  const sandbox_id = await world.createSandbox();
  const program = { cmd: "/bin/sh", args: ["-c", "read line"], keep_stdin_open: true };
  const started = { sandbox_id, ...program, wait_seconds: 0 };
  await world.call("run_process", started);
  await world.call("run_process", started);
  await world.call("pause_sandbox", { sandbox_id });
  await expect.poll(() => captures.inState(sandbox_id, "lost").length).toBe(2);
  const attach = captures.attach.bind(captures);
  const asked: number[] = [];
  const work: Promise<void>[] = [];
  Object.assign(captures, {
    async attach(sandbox: Sandbox, pid: number) {
      asked.push(pid);
      const watched = await attach(sandbox, pid);
      await world.call("pause_sandbox", { sandbox_id });
      return watched;
    },
  });
  Object.assign(world.state, { track: (task: Promise<void>) => void work.push(task) });
  await world.call("connect_sandbox", { sandbox_id });
  await Promise.all(work);
  expect([work.length, asked.length]).toEqual([1, 1]);
});

test("the answer to an input right after a resume is returned", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const echo = ["-c", "while read line; do echo got $line; done"];
  const program = { cmd: "/bin/sh", args: echo, keep_stdin_open: true, wait_seconds: 0 };
  const { text } = await world.call("run_process", { sandbox_id, ...program });
  const process_id = /process_id: (\S+)/.exec(text)?.[1];
  await world.call("pause_sandbox", { sandbox_id });
  await world.call("connect_sandbox", { sandbox_id });
  const input = { sandbox_id, process_id, data: "a line\n", wait_seconds: 20 };
  expect((await world.call("send_input", input)).text).toContain("got a line\n");
});
