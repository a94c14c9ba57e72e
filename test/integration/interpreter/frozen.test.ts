/** Kernels whose program reads or writes no more, and callers who read nothing: no run waits for ever. */

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isAlive } from "../../../src/envd/process/kill.ts";
import {
  startInterpreterServer,
  textOf,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

async function makeContext(language: string): Promise<string> {
  const made = await server.call("POST", "/contexts", { language, cwd: "/" });
  return JSON.parse(made.text).id;
}

const WAIT = { timeout: 20_000 };
/** A child with the pipes of its kernel, which ends by itself, should a test leave it. */
const STOP = `const fs = require("node:fs");
  const pipes = fs.readdirSync("/proc/self/fd").filter((fd) => {
    try { return fd > 2 && fs.readlinkSync("/proc/self/fd/" + fd).startsWith("pipe:"); } catch {}
  });
  const stdio = ["ignore", "ignore", "ignore", ...pipes.map(Number)];
  const options = { detached: true, stdio };
  const holder = require("node:child_process").spawn("sleep", ["60"], options);
  setTimeout(() => process.kill(process.pid, "SIGSTOP"), 200);
  process.pid + " " + holder.pid`;

test("a stopped kernel with a child that holds its pipe is restarted", async () => {
  const context_id = await makeContext("js");
  const [kernel, holder] = textOf(await server.run(STOP, { context_id }), "result").split(" ");
  await untilStopped(kernel);
  const body = JSON.stringify({ code: `/* ${"x".repeat(2_000_000)} */`, context_id });
  // Its head comes once the kernel is asked.
  const reply = await fetch(`${server.url}/execute`, { method: "POST", body });
  expect((await server.call("POST", `/contexts/${context_id}/restart`)).status).toBe(200);
  expect(await reply.text()).toContain("KernelDied");
  process.kill(Number(holder), "SIGKILL");
  expect(textOf(await server.run("console.log('on')", { context_id }), "stdout")).toBe("on\n");
  await server.call("DELETE", `/contexts/${context_id}`);
});

test("a caller that leaves ends a stopped kernel", { timeout: 40_000 }, async () => {
  const context_id = await makeContext("js");
  const [kernel, holder] = textOf(await server.run(STOP, { context_id }), "result").split(" ");
  await untilStopped(kernel);
  const leave = new AbortController();
  const body = JSON.stringify({ code: `/* ${"x".repeat(2_000_000)} */`, context_id });
  await fetch(`${server.url}/execute`, { method: "POST", body, signal: leave.signal });
  leave.abort();
  const lines = await server.run("console.log('on')", { context_id });
  process.kill(Number(holder), "SIGKILL");
  expect(textOf(lines, "stderr")).toContain("was started again");
  expect(textOf(lines, "stdout")).toBe("on\n");
  await server.call("DELETE", `/contexts/${context_id}`);
});

async function untilStopped(pid = "") {
  await expect.poll(() => readFileSync(`/proc/${pid}/stat`, "latin1"), WAIT).toContain(") T ");
}

test("restarts at once all succeed", async () => {
  const context_id = await makeContext("js");
  const restarts = Array.from({ length: 8 }, async (_, index) => {
    await delay(index * 10);
    return server.call("POST", `/contexts/${context_id}/restart`);
  });
  expect(new Set((await Promise.all(restarts)).map(({ status }) => status))).toEqual(
    new Set([200]),
  );
  expect(textOf(await server.run("40 + 2", { context_id }), "result")).toBe("42");
  await server.call("DELETE", `/contexts/${context_id}`);
});

test.for([
  ["exec sleep 60", "the kernel closed its pipes"],
  [
    // While a cell runs, bash has the answers' pipe at another number.
    "for f in /proc/$$/fd/1?; do [[ $(stat -c %A $f) != l-wx* ]] || echo no JSON >$f; done; sleep 60",
    "the kernel sent an answer that is not valid",
  ],
])("a kernel that the server ends is told why: %s", async ([code = "", why]) => {
  const context_id = await makeContext("bash");
  const [error] = (await server.run(code, { context_id })).filter(({ type }) => type === "error");
  expect(error?.["value"]).toBe(`${why}; its variables are gone`);
  await server.call("DELETE", `/contexts/${context_id}`);
});

test("a restart of a context that is removed meanwhile does not find it", async () => {
  const statuses = [];
  for (let round = 0; round < 5; round += 1) {
    const path = `/contexts/${await makeContext("js")}`;
    const restart = server.call("POST", `${path}/restart`);
    expect((await server.call("DELETE", path)).status).toBe(200);
    statuses.push((await restart).status);
  }
  expect(statuses.filter((status) => status !== 200 && status !== 404)).toEqual([]);
});

test("a restart does not wait for a caller who reads nothing", { timeout: 30_000 }, async () => {
  const context_id = await makeContext("bash");
  const pid = textOf(await server.run("echo $$", { context_id }), "stdout").trim();
  const body = JSON.stringify({ code: "echo up; yes", context_id });
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(`POST /execute HTTP/1.1\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  await untilStopped(pid);
  expect((await server.call("POST", `/contexts/${context_id}/restart`)).status).toBe(200);
  expect(textOf(await server.run("echo on", { context_id }), "stdout")).toBe("on\n");
  socket.destroy();
  await server.call("DELETE", `/contexts/${context_id}`);
});

/** Of a JavaScript kernel, which has one end of that pipe, to write to. */
const FIND_ANSWERS = String.raw`const { readdirSync, readFileSync, readlinkSync } = require("node:fs");
    const links = readdirSync("/proc/self/fd").flatMap((fd) => {
      try { return [[fd, readlinkSync("/proc/self/fd/" + fd)]]; } catch { return []; }
    });
    const [answers] = links.find(([fd, link]) => fd > 2 && link.startsWith("pipe:") &&
      links.filter((other) => other[1] === link).length === 1 &&
      /flags:\s+\d*1$/m.test(readFileSync("/proc/self/fdinfo/" + fd, "latin1")));`;

/** Programs in sessions of their own, with what they write to: the output, the pipe of answers. */
const WRITERS = {
  bash: `echo $$; setsid perl -e 'print "y" x 65536 for 1 .. 1200' & wait`,
  js: String.raw`
    ${FIND_ANSWERS}
    const program = 'open $o, ">&=", 3;' +
      'print $o q({"type":"result","data":{"text/plain":"), "y" x 65536, qq("}}\n) for 1 .. 2000';
    const options = { detached: true, stdio: ["ignore", "ignore", 2, Number(answers)] };
    console.log(process.pid);
    const writer = require("node:child_process").spawn("perl", ["-e", program], options);
    await new Promise((resolve) => writer.on("exit", resolve));`,
};

test.for([
  { language: "bash", parts: 1_200, mostMiB: 48 },
  // A reply may have as much again on its way: one answer that is asked for wakes who sends it.
  { language: "js", parts: 2_000, mostMiB: 72 },
] as const)(
  "a reader who takes nothing stops programs in sessions of their own: $language",
  async (kind) => {
    const { language, parts, mostMiB } = kind;
    const context_id = await makeContext(language);
    const code = WRITERS[language];
    const body = JSON.stringify({ code, context_id });
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    const head = `connection: close\r\ncontent-length: ${body.length}`;
    socket.write(`POST /execute HTTP/1.1\r\n${head}\r\n\r\n${body}`);
    const [first] = await once(socket, "data");
    socket.pause();
    const kernel = /"text": "([0-9]+)/.exec(String(first))?.[1] ?? "";
    await untilStopped(kernel);
    const [writer = ""] = childrenOf(kernel);
    await untilItWaits(writer);
    expect(writtenBy(writer)).toBeLessThan(mostMiB * 1024 * 1024);
    let received = String(first).split("y").length;
    socket.on("data", (data) => (received += String(data).split("y").length - 1));
    socket.resume();
    await once(socket, "close");
    // The names of fields have the letter, too.
    expect(received).toBeGreaterThan(parts * 65536);
    await server.call("DELETE", `/contexts/${context_id}`);
  },
);

function childrenOf(pid: string): readonly string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim().split(" ");
}

/** Waits until the process has written nothing more between two looks. */
async function untilItWaits(pid: string): Promise<void> {
  let before = -1;
  const grown = () => {
    const [earlier, now] = [before, writtenBy(pid)];
    before = now;
    return now - earlier;
  };
  await expect.poll(grown, { ...WAIT, interval: 200 }).toBe(0);
}

function writtenBy(pid: string): number {
  return Number(/wchar: ([0-9]+)/.exec(readFileSync(`/proc/${pid}/io`, "latin1"))?.[1]);
}

test.for([
  ["POST", "/restart", "the context was restarted; its variables are gone"],
  ["DELETE", "", "the context was removed; its variables are gone"],
])("a cell that %s %s ends is told why", async ([method = "", path = "", text]) => {
  const context_id = await makeContext("js");
  const body = JSON.stringify({ code: "await new Promise(() => {})", context_id });
  // Its head comes once the kernel is asked.
  const reply = await fetch(`${server.url}/execute`, { method: "POST", body });
  expect((await server.call(method, `/contexts/${context_id}${path}`)).status).toBe(200);
  const lines = (await reply.text()).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toContainEqual({
    type: "error",
    name: "KernelDied",
    value: text,
    traceback: "",
  });
});

test("a program that goes on to answer for its kernel does not hold the end of a cell", async () => {
  const context_id = await makeContext("js");
  const code = `${FIND_ANSWERS}
    const program = 'open $o, ">&=", 3; syswrite $o, q({"type":"own"}) . "\\n" while 1';
    const options = { detached: true, stdio: ["ignore", "ignore", "ignore", Number(answers)] };
    const { spawn } = require("node:child_process");
    console.log("pid", spawn("perl", ["-e", program], options).pid);
    setTimeout(() => process.kill(process.pid, "SIGKILL"), 500);
    await new Promise(() => {})`;
  const lines = await server.run(code, { context_id });
  expect(lines.at(-2)).toMatchObject({ type: "error", name: "KernelDied" });
  const pid = Number(/[0-9]+/.exec(textOf(lines, "stdout"))?.[0]);
  // Its pipe has no reader left.
  await expect.poll(() => isAlive(pid), WAIT).toBe(false);
  expect(textOf(await server.run("40 + 2", { context_id }), "result")).toBe("42");
  await server.call("DELETE", `/contexts/${context_id}`);
});

test("an end that a cell claims is not the end of later cells", async () => {
  const context_id = await makeContext("js");
  const claim = `${FIND_ANSWERS}
    require("node:fs").writeSync(Number(answers), '{"type":"done","number":1}\\n'.repeat(3));`;
  await server.run(claim, { context_id });
  const texts = [];
  for (const text of ["a", "b", "c"]) {
    texts.push(textOf(await server.run(`console.log("${text}")`, { context_id }), "stdout"));
  }
  expect(texts).toEqual(["a\n", "b\n", "c\n"]);
  await server.call("DELETE", `/contexts/${context_id}`);
});
