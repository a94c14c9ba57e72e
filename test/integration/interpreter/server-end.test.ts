/** The end of the interpreter's server: what its cells started ends with it, and it starts again. */

import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  startInterpreterServer,
  textOf,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";

/** Programs that a cell leaves in the background, in a session of its own, and in front. */
const CELL = "sleep 300 & setsid sleep 301 & echo $$ $! $(jobs -p); sleep 302";

test("a killed server takes its cells and their programs with it, and starts again", async () => {
  await using server = await startInterpreterServer();
  const [front, ids] = await startCell(server);
  const inLoop = await startRun(server, "for (;;);", "js");
  const before = [...childrenOf(server.pid)];
  expect(before).toHaveLength(1);
  const kernels = before.flatMap(childrenOf);
  expect(kernels).toHaveLength(2);
  for (const id of before) process.kill(id, "SIGKILL");
  await front;
  await inLoop.text().catch(() => undefined);
  await expect.poll(() => [...kernels, ...ids].filter(isRunning), { timeout: 10_000 }).toEqual([]);
  await expect.poll(async () => isWhole(server), { timeout: 20_000 }).toBe(true);
  // A kernel may still have a program of its own start.
  await expect.poll(() => descendantsOf(server.pid)).toHaveLength(3);
}, 60_000);

test("a request that comes while no server runs waits for the next one", async () => {
  await using server = await startInterpreterServer();
  const before = childrenOf(server.pid);
  expect(before).toHaveLength(1);
  for (const id of before) process.kill(id, "SIGKILL");
  await expect.poll(() => before.filter(isRunning), { interval: 1 }).toEqual([]);
  expect(textOf(await server.run("echo new", { language: "bash" }), "stdout")).toBe("new\n");
}, 30_000);

test("a server that is told to end leaves no program of a cell", async () => {
  await using server = await startInterpreterServer();
  const [front, ids] = await startCell(server);
  process.kill(server.pid, "SIGTERM");
  await front;
  await expect.poll(() => ids.filter(isRunning), { timeout: 10_000 }).toEqual([]);
}, 30_000);

test("kernels end with a server whose supervisor was killed", async () => {
  await using server = await startInterpreterServer();
  const [front] = await startCell(server);
  const below = childrenOf(server.pid).flatMap((id) => [id, ...childrenOf(id)]);
  expect(below).toHaveLength(3);
  process.kill(server.pid, "SIGKILL");
  await front;
  await expect.poll(() => below.filter(isRunning), { timeout: 10_000 }).toEqual([]);
}, 30_000);

/** A cell of bash that runs, and the ids of the kernel and its programs. */
async function startCell(
  server: InterpreterServer,
): Promise<readonly [Promise<unknown>, readonly number[]]> {
  const reply = await startRun(server, CELL, "bash");
  const reader = (reply.body ?? new ReadableStream<Uint8Array>()).getReader();
  let text = "";
  while (!text.includes("stdout")) {
    const { value, done } = await reader.read();
    if (done) break;
    text += Buffer.from(value).toString("utf8");
  }
  const ids = (/"text": "([0-9 ]+)/.exec(text)?.[1] ?? "").split(" ").map(Number);
  expect(ids.length).toBeGreaterThan(2);
  const rest = (async () => {
    while (!(await reader.read()).done);
  })();
  return [rest.catch(() => undefined), ids];
}

/** A reply that has begun: the server has the request. */
function startRun(server: InterpreterServer, code: string, language: string): Promise<Response> {
  const body = JSON.stringify({ code, language });
  return fetch(`${server.url}/execute`, { method: "POST", body });
}

async function isWhole(server: InterpreterServer): Promise<boolean> {
  try {
    return textOf(await server.run("echo new", { language: "bash" }), "stdout") === "new\n";
  } catch {
    return false;
  }
}

function descendantsOf(id: number): number[] {
  return childrenOf(id).flatMap((child) => [child, ...descendantsOf(child)]);
}

function childrenOf(id: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number)
    .filter((candidate) => statOf(candidate)[1] === String(id));
}

function isRunning(id: number): boolean {
  return ![undefined, "Z", "X"].includes(statOf(id)[0]);
}

/** State, parent and more of a process; empty for one that is gone. */
function statOf(id: number): readonly string[] {
  try {
    const text = readFileSync(`/proc/${id}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
