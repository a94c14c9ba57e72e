/** A process that no server of this home started: no server knows when it began, nor says so. */

import { expect, test } from "vitest";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { startServer } from "../../support/mcp/mcp-server.ts";

const LATE = "output from before this server watched is not known";

/** Starts a process past every server of the home; it prints what it reads. */
async function startElsewhere(world: McpWorld, sandboxId: string): Promise<number> {
  const signal = AbortSignal.timeout(60_000);
  const sandbox = await world.service.attach(sandboxId, signal);
  const request = { cmd: "cat", args: [], env: {}, hasStdin: true };
  for await (const event of sandbox.process.start(request, { signal })) {
    if (event.type === "start") return event.pid;
  }
  throw new Error("the process did not start");
}

test("none of three servers tells a duration of a process that was watched late", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const process = { sandbox_id: id, process_id: `p_${await startElsewhere(world, id)}` };
  const first = await startServer(world);
  const seen = [await first.ask("get_process_output", process)];
  await first.ask("send_input", { ...process, data: "x\n" });
  await expect.poll(() => first.ask("get_process_output", process)).toContain("\nx\n");
  const second = await startServer(world);
  seen.push(await second.ask("get_process_output", process));
  await first[Symbol.asyncDispose]();
  // It takes the spool over, which the third one reads.
  seen.push(await second.ask("get_process_output", process));
  await using third = await startServer(world);
  seen.push(await third.ask("get_process_output", process));
  const fourth = await startServer(world);
  expect(await fourth.ask("send_signal", { ...process, signal: "SIGTERM" })).toMatch(
    /^SIGTERM sent to p_\d+ \| whether it has ended is not known; get_process_output\(process_id="p_\d+"\) returns whether it runs \| /,
  );
  await fourth[Symbol.asyncDispose]();
  await second.ask("send_signal", { ...process, signal: "SIGKILL" });
  await expect.poll(() => third.ask("get_process_output", process)).toContain("exit_code");
  seen.push(await third.ask("get_process_output", process));
  await second[Symbol.asyncDispose]();
  expect(seen.map((text) => [text.includes("duration"), text.includes(LATE)])).toEqual(
    Array.from({ length: 5 }, () => [false, true]),
  );
});

test("a process whose end no server saw has no duration", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const first = await startServer(world);
  const started = await first.ask("run_process", {
    sandbox_id: id,
    cmd: "sleep",
    args: ["60"],
    wait_seconds: 0,
  });
  const process = { sandbox_id: id, process_id: /p_[0-9]+/.exec(started)?.[0] };
  await first[Symbol.asyncDispose]();
  await world.call("kill_sandbox", { sandbox_id: id });
  await using second = await startServer(world);
  const text = await second.ask("get_process_output", process);
  expect(text).toMatch(/^status: ended while no server watched it/);
  expect(text).not.toContain("duration");
});

test("of servers that take a process over at once each shows all of its output", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const first = await startServer(world);
  const started = await first.ask("run_process", {
    sandbox_id: id,
    cmd: "sh",
    args: ["-c", "echo first; read line; echo got $line"],
    wait_seconds: 0,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: id, process_id: /p_[0-9]+/.exec(started)?.[0] };
  await expect.poll(() => first.ask("get_process_output", process)).toContain("\nfirst\n");
  await first[Symbol.asyncDispose]();
  await using stack = new AsyncDisposableStack();
  const servers = await Promise.all([1, 2, 3, 4].map(async () => startServer(world)));
  for (const server of servers) stack.use(server);
  const seen = await Promise.all(
    servers.map((server) => server.ask("get_process_output", process)),
  );
  expect(seen.map((text) => [text.includes("\nfirst\n"), text.includes(LATE)])).toEqual(
    servers.map(() => [true, false]),
  );
  await servers[0]?.ask("send_input", { ...process, data: "x\n" });
  for (const server of servers) {
    await expect
      .poll(() => server.ask("get_process_output", process))
      .toMatch(/^exit_code: 0 [^]*\nfirst\n[^]*\ngot x\n/);
  }
});

test("a cursor beyond the output of a process that was watched late leads to its beginning", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const process = { sandbox_id: id, process_id: `p_${await startElsewhere(world, id)}` };
  await using server = await startServer(world);
  const first = await server.ask("get_process_output", process);
  expect(first).not.toContain("cursor 0");
  const beyond = await server.ask("get_process_output", { ...process, cursor: 1_000 });
  expect(beyond).toContain("cursor 1000 is beyond the output that is known: read from cursor 0");
});
