/** Conversations with programs: terminals, REPLs, and input whose answer comes with the reply. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";

async function start(world: McpWorld, input: object) {
  const sandbox_id = await world.createSandbox();
  const outcome = await world.call("run_process", { sandbox_id, wait_seconds: 1, ...input });
  const process_id = /process_id: (p_[0-9]+)/.exec(outcome.text)?.[1] ?? "";
  const send = (data: string, more: object = {}) =>
    world.call("send_input", { sandbox_id, process_id, data, wait_seconds: 10, ...more });
  return { outcome, process: { sandbox_id, process_id }, send };
}

const PYTHON = { cmd: "python3", args: ["-q"], pty: true };

test("a REPL on a terminal is one call a turn", async () => {
  await using world = await startMcpWorld();
  const { outcome, send } = await start(world, PYTHON);
  expect(outcome.text).toContain("--- stdout\n>>> \n");
  expect((await send("6 * 7\n")).text).toMatch(/--- stdout\n6 \* 7\n42\n>>> \n--- end$/);
  expect((await send("1 / 0\n")).text).toContain("ZeroDivisionError");
  const ended = await send("", { close: true });
  expect(ended.text).toMatch(/Ctrl-D was typed, .* \| exit_code: 0 /);
});

test("in the middle of a line a terminal is not told to be closed", async () => {
  await using world = await startMcpWorld();
  const { send } = await start(world, { cmd: "cat", args: [], pty: true });
  await send("abc", { wait_seconds: 1 });
  const { text } = await send("", { close: true });
  expect(text).toMatch(
    /^sent 0 bytes to p_[0-9]+ \| Ctrl-D was typed, which ends input at the start of a line alone \| status: running /,
  );
  expect((await send("", { close: true })).text).toContain(" | exit_code: 0 ");
});

test("a line that a terminal may cut is told, one on a pipe is not", async () => {
  await using world = await startMcpWorld();
  const cat = { cmd: "cat", args: [] };
  const { send } = await start(world, { ...cat, pty: true });
  const line = "y".repeat(4_095);
  expect((await send(`${line}\n${line}\r`)).text).not.toContain("may have lost");
  expect((await send(`${line}y\n`)).text).toMatch(
    /^sent 4097 bytes to p_[0-9]+ \| a program that reads lines may have lost what is behind byte 4095 of a line: /,
  );
  const { send: pipe } = await start(world, { ...cat, keep_stdin_open: true });
  expect((await pipe(`${line}y\n`)).text).not.toContain("may have lost");
});

test("so is one that a process begins with", async () => {
  await using world = await startMcpWorld();
  const cat = { cmd: "cat", args: [], stdin: `${"y".repeat(4_096)}\n` };
  const typed = await start(world, { ...cat, pty: true });
  expect(typed.outcome.text).toContain(
    " | a program that reads lines may have lost what is behind ",
  );
  const written = await start(world, cat);
  expect(written.outcome.text).not.toContain("may have lost");
});

test("the echo of an input is no answer to it", async () => {
  await using world = await startMcpWorld();
  const { send } = await start(world, PYTHON);
  const { text } = await send("import time; time.sleep(1.5); print('done')\n");
  expect(text).toContain("\ndone\n>>> \n");
});

test("a REPL on a pipe answers with its output too", async () => {
  await using world = await startMcpWorld();
  const more = { cmd: "python3", args: ["-uqi"], keep_stdin_open: true };
  const { send } = await start(world, more);
  expect((await send("print(6 * 7)\n")).text).toMatch(/--- stdout\n42\n--- stderr\n>>> \n/);
});

test("the wait ends with its time, and the output is not lost", async () => {
  await using world = await startMcpWorld();
  const { send, process } = await start(world, {
    cmd: "/bin/sh",
    args: ["-c", "read line; sleep 2; echo late; exec sleep 60"],
    keep_stdin_open: true,
  });
  const { text } = await send("go\n", { wait_seconds: 1 });
  expect(text).toMatch(/status: running \| next_cursor: 0 \| no output yet/);
  const later = await world.call("get_process_output", { ...process, wait_seconds: 10 });
  expect(later.text).toContain("--- stdout\nlate\n");
});

test("a terminal has its size, changes it, and passes Ctrl-C on", async () => {
  await using world = await startMcpWorld();
  const script = "stty size; trap 'stty size; exit 3' INT; while :; do sleep 0.1; done";
  const { outcome, send } = await start(world, {
    cmd: "/bin/bash",
    args: ["-c", script],
    pty: true,
    cols: 80,
    rows: 24,
  });
  expect(outcome.text).toContain("--- stdout\n24 80\n");
  const { text } = await send("\u0003", { cols: 100, rows: 30 });
  expect(text).toMatch(/exit_code: 3 .*\n--- stdout\n[^\n]*30 100\n/);
});

test("a terminal has a name, UTF-8, one output, and is ended by a signal", async () => {
  await using world = await startMcpWorld();
  const script = "echo $TERM $LC_CTYPE; test -t 0 && test -t 2 && echo error >&2; exec sleep 60";
  const { process } = await start(world, { cmd: script, pty: true });
  const output = async () => (await world.call("get_process_output", process)).text;
  await expect.poll(output).toContain("\nxterm-256color C.UTF-8\nerror\n");
  expect(await output()).toMatch(/stderr 0 B/);
  const ended = await world.call("send_signal", process);
  expect(ended.text).toMatch(/^SIGTERM sent .* \(ended by signal: terminated\)/);
});

test("stdin is typed on a terminal, which stays open", async () => {
  await using world = await startMcpWorld();
  const { outcome, send } = await start(world, { ...PYTHON, stdin: "2 ** 10\n" });
  expect(outcome.text).toMatch(/^status: running/);
  expect(outcome.text).toContain("\n1024\n");
  expect((await send("2 ** 11\n")).text).toContain("\n2048\n");
});

test("faulty wishes are named", async () => {
  await using world = await startMcpWorld();
  const { process, send } = await start(world, { cmd: "cat", args: [], keep_stdin_open: true });
  const sandbox = { sandbox_id: process.sandbox_id };
  const texts = [
    (await world.call("run_process", { ...sandbox, cmd: "true", cols: 80 })).text,
    (await world.call("send_input", { ...process, data: "", cols: 80 })).text,
    (await send("", { cols: 80, rows: 24 })).text,
    (await world.call("send_input", { ...process, process_id: "p_4194304", data: "x" })).text,
  ];
  expect(texts).toEqual([
    expect.stringMatching(/^invalid_argument: cols and rows are for pty=true only/),
    expect.stringMatching(/^invalid_argument: cols and rows must be given together/),
    expect.stringMatching(/^invalid_argument: the process has no terminal .* pty=true/),
    expect.stringMatching(/^not_found: /),
  ]);
});

test("output without an end is bounded, and goes on at the cursor", async () => {
  await using world = await startMcpWorld();
  const { process, send } = await start(world, {
    cmd: "/bin/sh",
    args: ["-c", "read line; yes | head -c 5000000; exec sleep 60"],
    keep_stdin_open: true,
  });
  const { text } = await send("go\n");
  expect(text.length).toBeLessThan(31_000);
  const cursor = Number(/next_cursor: ([0-9]+)/.exec(text)?.[1]);
  expect(text).toMatch(/[0-9]+ bytes more/);
  const next = await world.call("get_process_output", { ...process, cursor });
  expect(next.text).toContain("--- stdout\ny\n");
});

test("input that is not read ends the call within its time, and the reply counts what waits", async () => {
  const clock = createFakeClock(Date.now());
  await using world = await startMcpWorld(clock);
  const go = join(world.folder, "go");
  const starting = start(world, {
    cmd: "/bin/sh",
    // It has one byte: the daemon has the first chunk then.
    args: ["-c", `dd bs=1 count=1; until [ -e ${go} ]; do sleep 0.05; done; wc -c`],
    keep_stdin_open: true,
    wait_seconds: 7,
  });
  await expect.poll(() => clock.isAwaited(7_000)).toBe(true);
  await clock.advance(7_000);
  const { process, send } = await starting;
  const sending = send("x".repeat(600_000), { wait_seconds: 2 });
  await expect
    .poll(async () => (await world.call("get_process_output", process)).text)
    .toContain("--- stdout\nx\n");
  await clock.advance(40_000);
  const { text } = await sending;
  const waiting = Number(/ The first ([0-9]+) of 600000 bytes wait for it\. /.exec(text)?.[1]);
  expect(text).toMatch(
    /^deadline_exceeded: p_[0-9]+ has not read its input yet\. .* close it once they are read\. /,
  );
  await writeFile(go, "");
  const rest = "x".repeat(600_000 - waiting);
  expect((await send(rest, { close: true })).text).toContain("stdin is closed");
  const whole = await world.call("get_process_output", { ...process, wait_seconds: 10 });
  expect(whole.text).toMatch(/^exit_code: 0 [^]*x599999\n/);
});

test("input that a pause cut off is not to be sent again unseen", async () => {
  await using world = await startMcpWorld();
  const { process, send } = await start(world, {
    cmd: "/bin/sh",
    args: ["-c", "dd bs=1 count=1; exec sleep 60"],
    keep_stdin_open: true,
  });
  const sending = send("x".repeat(200_000));
  await expect
    .poll(async () => (await world.call("get_process_output", process)).text)
    .toContain("--- stdout\nx\n");
  await world.call("pause_sandbox", { sandbox_id: process.sandbox_id });
  const { isError, text } = await sending;
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(
      /^failed_precondition: sandbox \S+ is paused\. Call connect_sandbox, then follow the process with get_process_output\.\nwhether p_[0-9]+ got all of its input is not known$/,
    ),
  ]);
});

test("the log tells that a pause cut off the stdin of a process", async () => {
  await using world = await startMcpWorld();
  const { process } = await start(world, {
    cmd: "/bin/sh",
    args: ["-c", "exec sleep 60"],
    stdin: "x".repeat(200_000),
  });
  const { sandbox_id, process_id } = process;
  await world.call("pause_sandbox", { sandbox_id });
  const uri = `sandbox:///${sandbox_id}/log`;
  await expect
    .poll(async () => JSON.stringify(await world.host.client.readResource({ uri })))
    .toContain(`${process_id} did not get all of its stdin`);
});
