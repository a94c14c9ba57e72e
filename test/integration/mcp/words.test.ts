/** Failures of ordinary causes, in words that a caller can act on. */

import { expect, test } from "vitest";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

test("input to an ended process says where its output is", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const ran = await world.call("run_process", { sandbox_id, cmd: "sh", args: ["-c", "echo hi"] });
  const process_id = /process_id: (p_[0-9]+)/.exec(ran.text)?.[1] ?? "";
  const { isError, text } = await world.call("send_input", { sandbox_id, process_id, data: "x" });
  expect([isError, text]).toEqual([
    true,
    `failed_precondition: ${process_id} has ended (exit_code: 0). Its output is kept for 15 ` +
      `minutes and is returned by get_process_output(process_id="${process_id}"); also in ` +
      `sandbox:///${sandbox_id}/log.`,
  ]);
});

test("input to a closed stdin says how it stays open", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const started = await world.call("run_process", {
    sandbox_id,
    cmd: "sleep",
    args: ["60"],
    wait_seconds: 0,
  });
  const process_id = /process_id: (p_[0-9]+)/.exec(started.text)?.[1] ?? "";
  const { text } = await world.call("send_input", { sandbox_id, process_id, data: "x" });
  expect(text).toBe(
    `failed_precondition: stdin of ${process_id} is closed. Start it with keep_stdin_open=true or pty=true.`,
  );
  const bad = await world.call("send_input", {
    sandbox_id,
    process_id,
    data: "no base64!",
    encoding: "base64",
  });
  expect(bad.text).toMatch(/^invalid_argument: data is not base64\. Encode it again/);
  await world.call("send_signal", { sandbox_id, process_id, signal: "SIGKILL" });
});

test.for(["send_input", "send_signal", "get_process_output"])(
  "%s of a process that never was does not say that it ended",
  async (tool) => {
    await using world = await startMcpWorld();
    const sandbox_id = await world.createSandbox();
    const input = { sandbox_id, process_id: "p_999999999" };
    const { text } = await world.call(
      tool,
      tool === "send_input" ? { ...input, data: "x" } : input,
    );
    expect(text).toMatch(/^not_found: .* No process of this id runs: there never was one, or it/);
  },
);

test.for([
  { content: "Q", isBase64: false },
  { content: "QQ", isBase64: true },
  { content: "Q Q=\n=", isBase64: true },
  { content: "!!", isBase64: false },
  { content: "Q=Q=", isBase64: false },
])("$content as base64", async ({ content, isBase64 }) => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const path = `${world.folder}/b`;
  const input = { sandbox_id, path, content, encoding: "base64" };
  const { text } = await world.call("write_file", input);
  expect(text).toMatch(isBase64 ? /^wrote 1 bytes/ : /^invalid_argument: content is not base64\./);
});

test("a file in the way of a directory is no failure of the service", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  await world.call("write_file", { sandbox_id, path: `${world.folder}/f`, content: "x" });
  const path = `${world.folder}/f/below`;
  for (const call of [
    await world.call("write_file", { sandbox_id, path, content: "x" }),
    await world.call("make_directory", { sandbox_id, path }),
    await world.call("read_file", { sandbox_id, path }),
    await world.call("list_directory", { sandbox_id, path }),
  ]) {
    expect(call.text).toMatch(/^(invalid_argument|not_found|failed_precondition): /);
    expect(call.text).not.toMatch(/internal|[Tt]ell the user/);
  }
});

test("a process that something else killed is told as out of memory, with the limit", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const shell = (command: string) =>
    world.call("run_process", { sandbox_id, cmd: "sh", args: ["-c", command] });
  const told =
    /^exit_code: \S+ (\(ended by signal: killed\) )?\| killed, and not by this server: most likely out of memory: the sandbox has 512 MB in all; get_metrics/;
  const killed = await shell("kill -9 $$");
  expect(killed.text).toMatch(told);
  const process_id = /process_id: (p_[0-9]+)/.exec(killed.text)?.[1];
  const again = await world.call("get_process_output", { sandbox_id, process_id });
  expect(again.text).toMatch(told);
  expect((await shell("exit 1")).text).not.toContain("memory");
});

test.for(["sh -c 'kill -9 $$'; exit $?", "exit 137"])(
  "a shell that returns the code of a kill is not called killed itself: %s",
  async (cmd) => {
    await using world = await startMcpWorld();
    const sandbox_id = await world.createSandbox();
    expect((await world.call("run_process", { sandbox_id, cmd })).text).toMatch(
      /^exit_code: 137 \| shells return 137 for a program that SIGKILL ended: perhaps out of memory: the sandbox has 512 MB/,
    );
  },
);

test.for([
  { signal: "TRAP", name: "trace/breakpoint trap" },
  { signal: "SEGV", name: "segmentation fault" },
])("an end by SIG$signal has its whole name", async ({ signal, name }) => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const { text } = await world.call("run_process", { sandbox_id, cmd: `kill -${signal} $$` });
  expect(text).toContain(`exit_code: -1 (ended by signal: ${name}) `);
});

test("a process that a caller killed is not", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const input = { sandbox_id, cmd: "sleep", args: ["60"], wait_seconds: 0 };
  const started = await world.call("run_process", input);
  const process_id = /process_id: (p_[0-9]+)/.exec(started.text)?.[1];
  await world.call("send_signal", { sandbox_id, process_id, signal: "SIGKILL" });
  const { text } = await world.call("get_process_output", { sandbox_id, process_id });
  expect(text).toMatch(/^exit_code: /);
  expect(text).not.toContain("memory");
});
