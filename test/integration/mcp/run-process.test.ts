/** Processes through the tools: results, waits, handles, progress, cancellation, bounded output. */

import { expect, test, vi } from "vitest";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";

/** A shell without the profile of a login shell. */
function shell(command: string) {
  return { cmd: "/bin/sh", args: ["-c", command] };
}

function processIdOf(text: string): string {
  const id = /process_id: (p_[0-9]+)/.exec(text)?.[1];
  expect(id).toBeDefined();
  return id ?? "";
}

/** Whether a process of the machine lives; the `bare` engine has no pids of its own. */
function isAlive(processId: string): boolean {
  try {
    return process.kill(Number(processId.slice(2)), 0);
  } catch {
    // There is no such process: that is the answer.
    return false;
  }
}

async function start(world: McpWorld, command: string, more: object = {}) {
  const sandboxId = await world.createSandbox();
  const outcome = await world.call("run_process", {
    sandbox_id: sandboxId,
    ...shell(command),
    ...more,
  });
  return { sandboxId, outcome };
}

test("both streams and a non-zero exit code are a normal result", async () => {
  await using world = await startMcpWorld();
  const { outcome } = await start(world, "echo out; echo err >&2; exit 3");
  expect(outcome).toEqual({
    isError: false,
    fields: {},
    text: expect.stringMatching(
      new RegExp(
        "^exit_code: 3 \\| duration: [0-9.]+m?s \\| process_id: p_[0-9]+ \\| " +
          "stdout 4 B, stderr 4 B \\| sandbox expires in [0-9]+s\n" +
          "--- stdout\nout\n--- stderr\nerr\n--- end$",
      ),
    ),
  });
});

test("a character that comes in two parts, one after the reply, is whole", async () => {
  await using world = await startMcpWorld();
  const command = `printf 'a\\303'; until [ -e go ]; do sleep 0.05; done; printf '\\251b'`;
  const { sandboxId, outcome } = await start(world, command, {
    cwd: world.folder,
    wait_seconds: 1,
  });
  const path = `${world.folder}/go`;
  await world.call("write_file", { sandbox_id: sandboxId, path, content: "" });
  const input = {
    sandbox_id: sandboxId,
    process_id: processIdOf(outcome.text),
    cursor: Number(/next_cursor: (\d+)/.exec(outcome.text)?.[1]),
  };
  await expect
    .poll(async () => (await world.call("get_process_output", input)).text)
    .toMatch(/^exit_code: 0 /);
  const rest = await world.call("get_process_output", input);
  const shown = [outcome, rest].map(
    ({ text }) => /--- stdout\n(.*)\n--- end/.exec(text)?.[1] ?? "",
  );
  expect(shown.join("")).toBe("aéb");
});

test("the beginning of a character alone does not end a wait for output", async () => {
  await using world = await startMcpWorld();
  const command = `printf 'a\\303'; until [ -e go ]; do sleep 0.05; done; printf '\\251b'; sleep 60`;
  const { sandboxId, outcome } = await start(world, command, {
    cwd: world.folder,
    wait_seconds: 1,
  });
  const input = {
    sandbox_id: sandboxId,
    process_id: processIdOf(outcome.text),
    cursor: Number(/next_cursor: (\d+)/.exec(outcome.text)?.[1]),
    wait_seconds: 30,
  };
  const waiting = world.call("get_process_output", input);
  const path = `${world.folder}/go`;
  await world.call("write_file", { sandbox_id: sandboxId, path, content: "" });
  expect((await waiting).text).toMatch(/--- stdout\né/);
});

test("a wait for one stream passes over what the other one writes", async () => {
  await using world = await startMcpWorld();
  const command = "echo out; read line; echo more; read line; echo bad >&2; read line";
  const more = { wait_seconds: 0, keep_stdin_open: true };
  const { sandboxId, outcome } = await start(world, command, more);
  const process = { sandbox_id: sandboxId, process_id: processIdOf(outcome.text) };
  const wish = { ...process, stream: "stderr", wait_seconds: 30 };
  const waiting = world.call("get_process_output", wish);
  await world.call("send_input", { ...process, data: "x\n", wait_seconds: 5 });
  await world.call("send_input", { ...process, data: "x\n" });
  const { text } = await waiting;
  expect(text).toContain("| next_cursor: 13 |");
  expect(text).toContain("--- stderr\nbad\n--- end");
});

test("a cursor beyond the end waits for what comes after it", async () => {
  await using world = await startMcpWorld();
  const more = { wait_seconds: 0, keep_stdin_open: true };
  const { sandboxId, outcome } = await start(world, "read line; echo typed; read line", more);
  const process = { sandbox_id: sandboxId, process_id: processIdOf(outcome.text) };
  const end = { ...process, cursor: "typed\n".length, wait_seconds: 30 };
  const waiting = world.call("get_process_output", end);
  await world.call("send_input", { ...process, data: "x\n", wait_seconds: 5 });
  await world.call("send_input", { ...process, data: "x\n" });
  const { text } = await waiting;
  expect(text).toContain("exit_code: 0 |");
  expect(text).not.toContain("--- stdout");
});

test("without args the command line is bash's", async () => {
  await using world = await startMcpWorld();
  const sandboxId = await world.createSandbox();
  const input = { sandbox_id: sandboxId, cmd: "echo {1..3} $A", env: [{ name: "A", value: "b" }] };
  const { text } = await world.call("run_process", input);
  expect(text).toContain("\n1 2 3 b\n");
});

test("stdin is written and closed", async () => {
  await using world = await startMcpWorld();
  const { outcome } = await start(world, "wc -c", { stdin: "é".repeat(200_000) });
  expect(outcome.text).toMatch(/--- stdout\n\s*400000\n/);
});

test("a process that takes longer goes on under its handle, and its output can be followed", async () => {
  await using world = await startMcpWorld();
  const command = "echo first; read line; echo got $line; exit 7";
  const more = { wait_seconds: 0, keep_stdin_open: true };
  const { sandboxId, outcome } = await start(world, command, more);
  const process = { sandbox_id: sandboxId, process_id: processIdOf(outcome.text) };
  expect(outcome.text).toMatch(/^status: running \|/);
  const first = await world.call("get_process_output", { ...process, wait_seconds: 10 });
  expect(first.text).toContain("--- stdout\nfirst\n--- end");
  const cursor = Number(/next_cursor: ([0-9]+)/.exec(first.text)?.[1]);
  expect(cursor).toBe(6);
  await world.call("send_input", { ...process, data: "x\n" });
  const wish = { ...process, cursor, wait_seconds: 10 };
  const second = await world.call("get_process_output", wish);
  expect(second.text).toContain("--- stdout\ngot x\n--- end");
  await expect
    .poll(async () => (await world.call("get_process_output", wish)).text)
    .toMatch(/^exit_code: 7 \|/);
  const again = await world.call("get_process_output", { ...process, cursor: 0 });
  expect(again.text).toContain("--- stdout\nfirst\ngot x\n--- end");
});

test("a wait for output ends with the time, not with the process", async () => {
  await using world = await startMcpWorld();
  const { sandboxId, outcome } = await start(world, "exec sleep 60", { wait_seconds: 0 });
  const process = { sandbox_id: sandboxId, process_id: processIdOf(outcome.text) };
  const { text } = await world.call("get_process_output", { ...process, wait_seconds: 1 });
  expect(text).toMatch(/^status: running \| .*next_cursor: 0/);
  const signal = await world.call("send_signal", process);
  expect(signal.text).toMatch(/^SIGTERM sent to p_[0-9]+ \| exit_code: -?[0-9]+ \(ended by signal/);
  const late = await world.call("send_signal", process);
  expect([late.isError, late.text]).toEqual([false, expect.stringContaining("had ended already")]);
});

test("progress tells the start and then what comes", async () => {
  await using world = await startMcpWorld();
  const sandboxId = await world.createSandbox();
  const seen: { progress: number; message?: string | undefined }[] = [];
  const command = "echo one; sleep 1.2; echo two; sleep 1.2";
  const input = { sandbox_id: sandboxId, ...shell(command) };
  await world.call("run_process", input, {
    onprogress: ({ progress, message }) => seen.push({ progress, message }),
  });
  const count = seen.length;
  expect(seen.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^started pid [0-9]+$/),
    "output: one",
    "output: two",
  ]);
  const numbers = seen.map(({ progress }) => progress);
  expect(numbers).toEqual([...new Set(numbers)].toSorted((left, right) => left - right));
  await world.call("list_directory", { sandbox_id: sandboxId, path: world.folder });
  expect(seen).toHaveLength(count);
});

test("a cancelled call ends its process, even one that ignores SIGTERM", async () => {
  await using world = await startMcpWorld();
  const sandboxId = await world.createSandbox();
  const controller = new AbortController();
  const pids: string[] = [];
  const command = "trap '' TERM; while :; do sleep 0.1; done";
  const calling = world.call(
    "run_process",
    { sandbox_id: sandboxId, ...shell(command) },
    {
      signal: controller.signal,
      onprogress: ({ message }) => pids.push(`p_${/[0-9]+/.exec(message ?? "")?.[0]}`),
    },
  );
  await expect.poll(() => pids.length).toBeGreaterThan(0);
  controller.abort();
  await expect(calling).rejects.toThrow("abort");
  await expect.poll(() => isAlive(pids[0] ?? ""), { timeout: 5_000 }).toBe(false);
});

test("a cancelled call leaves a detached process alone", async () => {
  await using world = await startMcpWorld();
  const logged = vi.spyOn(world.state.log, "info");
  const sandboxId = await world.createSandbox();
  const controller = new AbortController();
  const pids: string[] = [];
  const calling = world.call(
    "run_process",
    { sandbox_id: sandboxId, ...shell("exec sleep 60"), detach: true },
    {
      signal: controller.signal,
      onprogress: ({ message }) => pids.push(`p_${/[0-9]+/.exec(message ?? "")?.[0]}`),
    },
  );
  await expect.poll(() => pids.length).toBeGreaterThan(0);
  controller.abort();
  await expect(calling).rejects.toThrow("abort");
  const process = { sandbox_id: sandboxId, process_id: pids[0] ?? "" };
  const { text } = await world.call("get_process_output", { ...process, wait_seconds: 1 });
  expect(text).toMatch(/^status: running/);
  const err = expect.objectContaining({
    message: `run_process was cancelled; ${pids[0]} goes on`,
  });
  expect(logged).toHaveBeenCalledWith(expect.objectContaining({ err }), "tool.run_process");
  await world.call("send_signal", { ...process, signal: "SIGKILL" });
});

test("a process is killed at its own time limit", async () => {
  await using world = await startMcpWorld();
  const { outcome } = await start(world, "echo a; exec sleep 60", { timeout_seconds: 1 });
  expect(outcome.text).toMatch(/^status: killed at timeout_seconds \(not its children\) \|/);
  expect(outcome.text).toContain("--- stdout\na\n");
  await expect.poll(() => isAlive(processIdOf(outcome.text))).toBe(false);
});

test("a large output is cut, says so, and can be read in pages while it is kept", async () => {
  await using world = await startMcpWorld();
  const command = "i=0; while [ $i -lt 40000 ]; do echo line $i; i=$((i+1)); done";
  const { sandboxId, outcome } = await start(world, command, { max_output_bytes: 2_000 });
  expect(outcome.text.length).toBeLessThan(2_600);
  expect(outcome.text).toContain("--- stdout\nline 0\n");
  expect(outcome.text).toContain("line 39999\n--- end");
  const processId = processIdOf(outcome.text);
  const mark = new RegExp(
    `\\[… 4[0-9]{2} KB omitted; newest part: sandbox:///${sandboxId}/log, or ` +
      `get_process_output\\(process_id="${processId}", cursor=([0-9]+)\\)\\]`,
  ).exec(outcome.text);
  const cursor = Number(mark?.[1]);
  expect(cursor).toBeGreaterThan(0);
  const wish = { sandbox_id: sandboxId, process_id: processId, cursor, max_bytes: 1_000 };
  const page = await world.call("get_process_output", wish);
  const next = /line ([0-9]+)\n/.exec(page.text)?.[1];
  expect(outcome.text).toContain(`line ${Number(next) - 1}\n--- […`);
});

test("an output that nobody reads does not hold the process up, and is kept whole", async () => {
  await using world = await startMcpWorld();
  const command = "head -c 20000000 /dev/zero | tr '\\0' 'x'; echo done >&2";
  const { outcome } = await start(world, command, { max_output_bytes: 1_000 });
  expect(outcome.text).toMatch(/^exit_code: 0 \|.*stdout 20 MB, stderr 5 B \| sandbox expires/);
  expect(outcome.text).toContain("--- stderr\ndone\n");
});

test("a process that another server started can be followed from now on", async () => {
  await using world = await startMcpWorld();
  const sandboxId = await world.createSandbox();
  const sandbox = await world.service.attach(sandboxId, new AbortController().signal);
  const controller = new AbortController();
  const events = sandbox.process.start(
    { ...shell("read line; echo $line; exit 2"), env: {}, hasStdin: true },
    { signal: controller.signal },
  );
  const { value } = await events.next();
  const pid = value?.type === "start" ? value.pid : 0;
  controller.abort();
  const process = { sandbox_id: sandboxId, process_id: `p_${pid}` };
  const first = await world.call("get_process_output", process);
  expect(first.text).toContain("output from before this server watched is not known");
  await world.call("send_input", { ...process, data: "hello\n", close: true });
  await expect
    .poll(async () => (await world.call("get_process_output", process)).text)
    .toMatch(/^exit_code: 2 \|[^]*--- stdout\nhello\n/);
});

test("terminal codes and hostile characters do not reach the reader", async () => {
  await using world = await startMcpWorld();
  const { outcome } = await start(world, "printf '\\033[31mred\\033[0m\\r\\nx\\342\\200\\256y\\n'");
  expect(outcome.text).toContain("--- stdout\nred\nx\\u202ey\n--- end");
});

test.for([
  { name: "a missing directory", input: { cwd: "/nonexistent" }, text: "cwd '/nonexistent'" },
  { name: "an unknown user", input: { user: "nobody-here" }, text: "no user nobody-here in" },
])("$name is named", async ({ input, text }) => {
  await using world = await startMcpWorld();
  const { outcome } = await start(world, "true", input);
  expect(outcome).toMatchObject({ isError: true, text: expect.stringContaining(text) });
  expect(outcome.text).toMatch(/^invalid_argument: /);
});

test("a missing program is exit code 127", async () => {
  await using world = await startMcpWorld();
  const sandboxId = await world.createSandbox();
  const input = { sandbox_id: sandboxId, cmd: "no-such-program", args: [] };
  const { text, isError } = await world.call("run_process", input);
  expect([isError, text.startsWith("exit_code: 127 |")]).toEqual([false, true]);
});

test("killing the sandbox fails the call in flight, with what came until then", async () => {
  await using world = await startMcpWorld();
  const sandboxId = await world.createSandbox();
  const started = Promise.withResolvers<void>();
  const calling = world.call(
    "run_process",
    { sandbox_id: sandboxId, ...shell("echo before; exec sleep 60") },
    { onprogress: ({ message }) => message === "output: before" && started.resolve() },
  );
  await started.promise;
  await world.test.call({ method: "DELETE", path: `/sandboxes/${sandboxId}` });
  const { isError, text } = await calling;
  expect(isError).toBe(true);
  expect(text).toMatch(/^not_found: sandbox i[a-z0-9]+ does not exist/);
  expect(text).toContain("--- stdout\nbefore\n--- end");
});
