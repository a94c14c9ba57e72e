/** Output that outlives its server: read on by another one, with a mark where something is missing. */

import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { expect, test } from "vitest";
import { createService } from "../../../src/client/service.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { factOf, startServer, type Server } from "../../support/mcp/mcp-server.ts";

/** The whole stdout by pages, as a client puts it together that knows nothing but the replies. */
async function pageThrough(
  { ask }: Pick<Server, "ask">,
  process: Readonly<Record<string, unknown>>,
): Promise<string> {
  let read = "";
  let cursor = 0;
  for (;;) {
    // Each page names the next one.
    const text = await ask("get_process_output", { ...process, cursor, max_bytes: 200_000 });
    read += /--- stdout\n([^]*)--- end/.exec(text)?.[1] ?? "";
    const next = Number(factOf(text, /next_cursor: ([0-9]+)/));
    if (next === cursor || !text.includes("bytes more")) return read;
    cursor = next;
  }
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

const LINES = 300_000;
const COMMAND = `seq 1 ${LINES}`;
const WANTED = Array.from({ length: LINES }, (_, index) => `${index + 1}\n`).join("");

function shell(command: string) {
  return { cmd: "/bin/sh", args: ["-c", command] };
}

test("a second server reads the whole output of an ended process, and its exit code", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const started = await world.call("run_process", {
    sandbox_id: id,
    ...shell(`${COMMAND}; exit 3`),
  });
  const process = { sandbox_id: id, process_id: factOf(started.text, /process_id: (p_[0-9]+)/) };
  await using second = await startServer(world);
  await expect
    .poll(async () => second.ask("get_process_output", process))
    .toMatch(/^exit_code: 3 \|/);
  expect(hashOf(await pageThrough(second, process))).toBe(hashOf(WANTED));
  const uri = `sandbox:///${id}/process/${process.process_id}/log`;
  const newest = await second.read(uri);
  expect(newest.endsWith(`${LINES - 1}\n${LINES}\n--- end\n`)).toBe(true);
  expect(newest.split("\n")[1]).toBe(
    `--- [… 1.9 MB of older output omitted; ${uri}/0 reads from the beginning]`,
  );
  const part = await second.read(`${uri}/0`);
  expect(part.startsWith("--- log\n1\n2\n3\n")).toBe(true);
  const next = factOf(part, /\n--- \[… .* more: (\S+)\]\n--- end\n$/);
  expect((await second.read(next)).split("\n")[1]).toBe(
    String(Number(factOf(part, /\n([0-9]+)\n--- \[…/)) + 1),
  );
});

test("a second server follows a process that the first one watches", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const started = await world.call("run_process", {
    sandbox_id: id,
    ...shell("echo first; read line; echo got $line; exit 4"),
    wait_seconds: 0,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: id, process_id: factOf(started.text, /process_id: (p_[0-9]+)/) };
  await using second = await startServer(world);
  await expect
    .poll(async () => second.ask("get_process_output", process))
    .toContain("--- stdout\nfirst\n--- end");
  const waiting = second.ask("get_process_output", { ...process, cursor: 6, wait_seconds: 20 });
  await second.ask("send_input", { ...process, data: "x\n" });
  expect(await waiting).toContain("--- stdout\ngot x\n--- end");
  await expect
    .poll(async () => second.ask("get_process_output", process))
    .toMatch(/^exit_code: 4 \|/);
});

test("a process whose server ended goes on under the next one, with a mark in between", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const first = await startServer(world);
  const started = await first.ask("run_process", {
    sandbox_id: id,
    ...shell("echo first; read line; echo got $line; exit 5"),
    wait_seconds: 0,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: id, process_id: factOf(started, /process_id: (p_[0-9]+)/) };
  await expect
    .poll(async () => first.ask("get_process_output", process))
    .toContain("--- stdout\nfirst\n");
  await first[Symbol.asyncDispose]();
  await using second = await startServer(world);
  const seen = await second.ask("get_process_output", process);
  expect(seen).toMatch(/^status: running \|/);
  expect(seen).toContain("--- stdout\nfirst\n--- [… its stream was broken here");
  await second.ask("send_input", { ...process, data: "x\n" });
  await expect
    .poll(async () => second.ask("get_process_output", process))
    .toMatch(/^exit_code: 5 \|[^]*first\n--- \[… .*\]\ngot x\n--- end$/);
  const log = await second.read(`sandbox:///${id}/log`);
  expect(log).toMatch(
    /started: [^]*\nfirst\n[^]*watched again[^]*\ngot x\n[^]*ended: exit_code 5\n--- end\n$/,
  );
});

test("a log has what servers wrote at once, in the order in which they began", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const uri = `sandbox:///${id}/log`;
  const run = (server: Server, word: string) =>
    server.ask("run_process", { sandbox_id: id, ...shell(`echo ${word}`) });
  const first = await startServer(world);
  await run(first, "one");
  expect(await first.read(uri)).toContain("\none\n");
  const second = await startServer(world);
  await run(second, "two");
  expect(await second.read(uri)).toContain("\ntwo\n");
  await first[Symbol.asyncDispose]();
  await using third = await startServer(world);
  expect(await third.read(uri)).toMatch(/\none\n[^]*\ntwo\n/);
  await second[Symbol.asyncDispose]();
  const before = await third.read(`${uri}/0`);
  await run(third, "three");
  const after = await third.read(`${uri}/0`);
  expect(after).toMatch(/\none\n[^]*\ntwo\n[^]*\nthree\n/);
  expect(after.startsWith(before.replace(/--- end\n$/, ""))).toBe(true);
});

test("a process that ended before a server watches it is not called running", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const signal = AbortSignal.timeout(30_000);
  const sandbox = await world.service.attach(id, signal);
  const request = { ...shell("exit 7"), env: {}, hasStdin: false };
  let pid = 0;
  for await (const event of sandbox.process.start(request, { signal })) {
    if (event.type === "start") ({ pid } = event);
  }
  await using server = await startServer(world);
  const process = { sandbox_id: id, process_id: `p_${pid}` };
  expect(await server.ask("get_process_output", process)).toMatch(/^exit_code: 7 \|/);
});

test("a process of a killed sandbox runs for no server, also while the first one lives", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const started = await world.call("run_process", {
    sandbox_id: id,
    ...shell("echo busy; exec sleep 60"),
    wait_seconds: 1,
  });
  const process = { sandbox_id: id, process_id: factOf(started.text, /process_id: (p_[0-9]+)/) };
  await using second = await startServer(world);
  expect(await second.ask("get_process_output", process)).toMatch(/^status: running/);
  await world.call("kill_sandbox", { sandbox_id: id });
  for (const ask of [
    async () => (await world.call("get_process_output", process)).text,
    async () => second.ask("get_process_output", process),
  ]) {
    await expect
      .poll(ask, { timeout: 10_000 })
      .toMatch(/^status: connection lost[^]*--- stdout\nbusy\n--- end$/);
  }
});

test("what was written outlives the sandbox, the first server, and both", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const first = await startServer(world);
  const started = await first.ask("run_process", { sandbox_id: id, ...shell("echo hi; exit 6") });
  const ended = { sandbox_id: id, process_id: factOf(started, /process_id: (p_[0-9]+)/) };
  const left = await first.ask("run_process", {
    sandbox_id: id,
    ...shell("echo busy; exec sleep 60"),
    wait_seconds: 1,
  });
  const running = { sandbox_id: id, process_id: factOf(left, /process_id: (p_[0-9]+)/) };
  await first[Symbol.asyncDispose]();
  await world.call("kill_sandbox", { sandbox_id: id });
  await using second = await startServer(world);
  expect(await second.ask("get_process_output", ended)).toMatch(
    /^exit_code: 6 \|[^]*--- stdout\nhi\n--- end$/,
  );
  expect(await second.ask("get_process_output", running)).toMatch(
    /^status: ended while no server watched it[^]*--- stdout\nbusy\n--- end$/,
  );
  expect(await second.read(`sandbox:///${id}/log`)).toContain("\nhi\n");
  expect(await second.read(`sandbox:///${id}/process/${running.process_id}/log`)).toBe(
    "--- log\nbusy\n--- end\n",
  );
});

test("a stream that breaks is taken up again, with a mark in the output and in the log", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const started = await world.call("run_process", {
    sandbox_id: id,
    ...shell("echo first; read line; echo got $line; exit 8"),
    wait_seconds: 1,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: id, process_id: factOf(started.text, /process_id: (p_[0-9]+)/) };
  const sandbox = await world.service.attach(id, new AbortController().signal);
  // The daemon cuts all streams when the sandbox is paused and resumed.
  await world.call("pause_sandbox", { sandbox_id: id });
  await world.call("connect_sandbox", { sandbox_id: id });
  await expect
    .poll(async () => (await world.call("get_process_output", process)).text)
    .toMatch(/^status: running[^]*--- stdout\nfirst\n--- \[… [^]*\]\n--- end$/);
  const pid = Number(process.process_id.slice(2));
  await sandbox.process.sendInput(pid, [Buffer.from("x\n")], new AbortController().signal);
  await expect
    .poll(async () => (await world.call("get_process_output", process)).text)
    .toMatch(/^exit_code: 8 \|[^]*got x\n--- end$/);
});

test("a process that outlives a pause is watched again before anyone asks for it", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const input = { sandbox_id: id, ...shell("read line; echo got $line"), keep_stdin_open: true };
  const started = await world.call("run_process", { ...input, wait_seconds: 0 });
  const process_id = factOf(started.text, /process_id: (p_[0-9]+)/);
  const sandbox = await world.service.attach(id, new AbortController().signal);
  const countOfLost = () => world.state.captures.inState(id, "lost").length;
  await world.call("pause_sandbox", { sandbox_id: id });
  await expect.poll(countOfLost).toBe(1);
  await world.call("connect_sandbox", { sandbox_id: id });
  await expect.poll(countOfLost).toBe(0);
  const pid = Number(process_id.slice(2));
  await sandbox.process.sendInput(pid, [Buffer.from("x\n")], new AbortController().signal);
  const process = { sandbox_id: id, process_id };
  await expect
    .poll(async () => (await world.call("get_process_output", process)).text)
    .toMatch(/^exit_code: 0 \|[^]*got x\n--- end$/);
});

test("a process whose stream broke is watched by the server that is asked for it", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  await using first = await startServer(world);
  const started = await first.ask("run_process", {
    sandbox_id: id,
    ...shell("echo first; while read line; do echo got $line; done"),
    wait_seconds: 1,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: id, process_id: factOf(started, /process_id: (p_[0-9]+)/) };
  await world.call("pause_sandbox", { sandbox_id: id });
  await expect
    .poll(() => first.state.captures.find(id, Number(process.process_id.slice(2)))?.state.kind)
    .toBe("lost");
  await world.call("connect_sandbox", { sandbox_id: id });
  await using second = await startServer(world);
  await second.ask("get_process_output", process);
  await second.ask("send_input", { ...process, data: "x\n" });
  for (const server of [second, first]) {
    await expect
      .poll(() => server.ask("get_process_output", process))
      .toMatch(/^status: running[^]*--- stdout\nfirst\n--- \[… [^]*\]\ngot x\n--- end$/);
  }
  // The first one reads what the second one writes, until that is gone.
  await second[Symbol.asyncDispose]();
  await first.ask("get_process_output", process);
  await first.ask("send_input", { ...process, data: "y\n", close: true });
  await expect
    .poll(() => first.ask("get_process_output", process))
    .toMatch(/^exit_code: 0 \|[^]*first\n[^]*got x\n[^]*got y\n--- end$/);
});

interface Cuttable extends AsyncDisposable {
  readonly path: string;
  /** Cuts every connection that is open. */
  cut(): void;
}

/** A way to a door that breaks when it is told to. */
async function openCuttable(door: string, path: string): Promise<Cuttable> {
  const open = new Set<Socket>();
  const server = createServer((inner) => {
    const outer = connect(door);
    for (const socket of [inner, outer]) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => open.delete(socket));
    }
    inner.pipe(outer).pipe(inner);
  });
  const cut = () => open.forEach((socket) => socket.destroy());
  server.listen(path);
  await once(server, "listening");
  return {
    path,
    cut,
    async [Symbol.asyncDispose]() {
      server.close();
      cut();
      await once(server, "close");
    },
  };
}

const CUTS = 12;
const ROUNDS = 60;

test("of a stream that breaks again and again every line comes once, or a mark stands there", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const { socketPath, url, apiKey } = world.test.embedded;
  await using way = await openCuttable(socketPath, join(world.test.home, "cut.sock"));
  await using service = createService({ url, apiKey, socketPath: way.path });
  await using server = await startServer({ ...world, service });
  const command = `i=1; while [ $i -le ${ROUNDS} ]; do seq $((i * 1000)) $((i * 1000 + 999)); i=$((i + 1)); sleep 0.03; done; exit 7`;
  const started = await server.ask("run_process", {
    sandbox_id: id,
    ...shell(command),
    wait_seconds: 0,
  });
  const process = { sandbox_id: id, process_id: factOf(started, /process_id: (p_[0-9]+)/) };
  let seen = "";
  for (let cut = 0; cut < CUTS; cut += 1) {
    // As soon as something new has come the stream stands again.
    await expect
      .poll(async () => {
        const text = await server.ask("get_process_output", { ...process, cursor: 1e9 });
        const volume = factOf(text, /(stdout [0-9.]+ K?M?B)/);
        const isNew = volume !== seen || !text.startsWith("status: running");
        seen = volume;
        return isNew;
      })
      .toBe(true);
    way.cut();
  }
  await expect
    .poll(async () => server.ask("get_process_output", process), { timeout: 30_000 })
    .toMatch(/^exit_code: 7 \|/);
  // A stream that broke before the first line begins with a mark.
  const marks = /(?:^|\n)(?:--- \[… .* missing …\]\n)+/;
  const parts = (await pageThrough(server, process)).split(marks);
  expect(parts.length).toBeGreaterThan(1);
  let newest = 999;
  for (const [index, part] of parts.entries()) {
    const lines = part.split("\n");
    // What stands beside a mark may be a piece of a line.
    const whole = lines.slice(index === 0 ? 0 : 1, -1).map(Number);
    const [first = newest + 1] = whole;
    expect(first).toBeGreaterThan(newest);
    expect(whole).toEqual(Array.from({ length: whole.length }, (_, line) => first + line));
    newest = whole.at(-1) ?? newest;
  }
});

test("subscribers of one process learn of its output", async () => {
  await using world = await startMcpWorld();
  const id = await world.createSandbox();
  const started = await world.call("run_process", {
    sandbox_id: id,
    ...shell("read line; echo got $line"),
    wait_seconds: 0,
    keep_stdin_open: true,
  });
  const process = { sandbox_id: id, process_id: factOf(started.text, /process_id: (p_[0-9]+)/) };
  const uri = `sandbox:///${id}/process/${process.process_id}/log`;
  const updates: string[] = [];
  world.host.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    updates.push(params.uri);
  });
  await world.host.client.subscribeResource({ uri });
  await world.call("send_input", { ...process, data: "x\n" });
  await expect.poll(() => updates).toContain(uri);
  expect(new Set(updates)).toEqual(new Set([uri]));
});

const SANDBOXES = 60;

test("the list of logs comes by pages of fifty", async () => {
  await using world = await startMcpWorld();
  for (let index = 0; index < SANDBOXES; index += 1) {
    world.state.logs.open(`i${String(index).padStart(20, "0")}`);
  }
  const first = await world.host.client.listResources();
  expect(first.resources).toHaveLength(50);
  const rest = await world.host.client.listResources({ cursor: first.nextCursor });
  expect([rest.resources.length, rest.nextCursor]).toEqual([10, undefined]);
  const uris = [...first.resources, ...rest.resources].map(({ uri }) => uri);
  expect(new Set(uris).size).toBe(SANDBOXES);
  await expect(world.host.client.listResources({ cursor: "../x" })).rejects.toMatchObject({
    code: -32_602,
  });
});
