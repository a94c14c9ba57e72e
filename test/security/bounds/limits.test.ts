/** Every limit of the daemon, passed by one: an answer that says so, and no memory for it. */

import { link, mkdir, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { createGzip } from "node:zlib";
import { expect, test } from "vitest";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { toTarget } from "../../support/hostile/daemon-target.ts";
import { deliver, residentBytes } from "../../support/hostile/fuzz.ts";
import { startEchoServer } from "../../support/network/echo.ts";
import { startTestService } from "../../support/service.ts";

const MIB = 1024 * 1024;
const VERSION = { "connect-protocol-version": "1" };
const CONTENT = { "content-type": "application/octet-stream" };

/** Runs the work and returns how much larger the daemon was in the end. */
async function growthOf(daemon: TestDaemon, work: () => Promise<unknown>): Promise<number> {
  const { pid, ...target } = await toTarget(daemon);
  const before = residentBytes(pid);
  await work();
  await target.checkHealth();
  return (residentBytes(pid) - before) / MIB;
}

/** Many names of it take a fraction of the work of many files, and are entries and events as well. */
async function oneFile(daemon: TestDaemon, name = "of many names"): Promise<string> {
  const path = join(daemon.folder, name);
  await writeFile(path, "");
  return path;
}

test("headers of 16 KiB and more are 431, at every door", async () => {
  await using daemon = await startTestDaemon();
  await using service = await startTestService();
  const head = `GET /health HTTP/1.1\r\nHost: localhost\r\nA: ${"x".repeat(17_000)}\r\n\r\n`;
  const input = { pieces: [Buffer.from(head)], ending: "open" } as const;
  const replies = [daemon.publicSocket, service.embedded.socketPath].map(async (path) =>
    (await deliver(path, input)).toString("latin1", 0, 12),
  );
  expect(await Promise.all(replies)).toEqual(["HTTP/1.1 431", "HTTP/1.1 431"]);
});

test("a control body of 16 MiB and more is 413", async () => {
  await using service = await startTestService();
  const reply = await service.call({
    method: "POST",
    path: "/sandboxes",
    body: { templateID: "x".repeat(16 * MIB) },
  });
  expect(reply.status).toBe(413);
});

test("a message of 4 MiB and more is refused in both codecs", async () => {
  await using daemon = await startTestDaemon();
  const growth = await growthOf(daemon, async () => {
    for (const type of ["json", "proto"]) {
      const reply = await daemon.http("/process.Process/SendInput", {
        method: "POST",
        headers: { ...VERSION, "content-type": `application/${type}`, connection: "keep-alive" },
        body: Buffer.alloc(4 * MIB + 1, "x"),
      });
      expect([type, reply.status]).toEqual([type, 429]);
    }
  });
  expect(growth).toBeLessThan(64);
});

test("a compose body of 1 MiB and more is 400", async () => {
  await using daemon = await startTestDaemon();
  const body = JSON.stringify({ source_paths: ["x".repeat(MIB)], destination: "y" });
  const reply = await daemon.http("/files/compose", { method: "POST", body });
  expect([reply.status, reply.text]).toEqual([400, expect.stringContaining("exceeds 1048576")]);
});

test("a form of more than 10,000 parts is refused", async () => {
  await using daemon = await startTestDaemon();
  const part = '--b\r\nContent-Disposition: form-data; name="other"\r\n\r\n\r\n';
  const reply = await daemon.http("/files", {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b" },
    body: `${part.repeat(10_001)}--b--\r\n`,
  });
  expect([reply.status, reply.text]).toEqual([500, expect.stringContaining("10000 parts")]);
});

test("256 MiB in 256 KiB of gzip pass through; the disk is their bound", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "bomb");
  const bomb = await zippedZeros(256);
  const growth = await growthOf(daemon, async () => {
    const reply = await daemon.http(`/files?path=${path}`, {
      method: "POST",
      headers: { ...CONTENT, "content-encoding": "gzip" },
      body: bomb,
    });
    expect(reply.status).toBe(200);
  });
  expect([(await stat(path)).size, growth < 64]).toEqual([256 * MIB, true]);
});

async function zippedZeros(mebibytes: number): Promise<Buffer> {
  const gzip = createGzip();
  const chunks: Buffer[] = [];
  gzip.on("data", (chunk: Buffer) => chunks.push(chunk));
  const zeros = Buffer.alloc(MIB);
  for (let count = 0; count < mebibytes; count += 1) {
    if (!gzip.write(zeros)) await new Promise((resolve) => gzip.once("drain", resolve));
  }
  gzip.end();
  await new Promise((resolve) => gzip.once("end", resolve));
  return Buffer.concat(chunks);
}

test("a process has at most 256 readers", async () => {
  await using daemon = await startTestDaemon();
  const controller = new AbortController();
  const options = { signal: controller.signal };
  const started = daemon.processes.start({ process: { cmd: "sleep", args: ["60"] } }, options);
  const stream = started[Symbol.asyncIterator]();
  const first = await stream.next();
  const value = first.value?.event?.event.value;
  const pid = value !== undefined && "pid" in value ? value.pid : 0;
  const process = { selector: { case: "pid", value: pid } } as const;
  const joined = Array.from({ length: 255 }, async () =>
    daemon.processes.connect({ process }, options)[Symbol.asyncIterator]().next(),
  );
  await Promise.all(joined);
  const more = daemon.processes.connect({ process })[Symbol.asyncIterator]().next();
  expect(await faultOf(more)).toEqual(["ResourceExhausted", "more than 256 readers"]);
  await daemon.processes.sendSignal({ process, signal: 9 });
  controller.abort();
  await faultOf(stream.next());
});

test("input that a process does not read is refused above 16 MiB", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const started = daemon.processes.start({ process: { cmd: "sleep", args: ["60"] }, tag: "s" });
  const stream = started[Symbol.asyncIterator]();
  await stream.next();
  const process = { selector: { case: "tag", value: "s" } } as const;
  const input = { input: { case: "stdin", value: Buffer.alloc(4_000_000) } } as const;
  const waiting = Array.from({ length: 4 }, async () =>
    daemon.processes.sendInput({ process, input }),
  );
  const ends = waiting.map(async (call) => faultOf(call));
  await expect
    .poll(
      async () =>
        (await faultOf(daemon.processes.sendInput({ process, input }, { timeoutMs: 500 })))[0],
    )
    .toBe("ResourceExhausted");
  await daemon.processes.sendSignal({ process, signal: 9 });
  await stream.next();
  await Promise.all(ends);
});

test("commands of running processes together are held up to 8 MiB, tags up to 4 KiB", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const words = Array.from({ length: 15 }, () => "x".repeat(100_000));
  const begin = (tag?: string, args: readonly string[] = words) => {
    const config = { cmd: "sh", args: ["-c", "sleep 60", ...args] };
    const request = tag === undefined ? { process: config } : { process: config, tag };
    return daemon.processes.start(request)[Symbol.asyncIterator]().next();
  };
  expect(await faultOf(begin("t".repeat(4_097), []))).toEqual([
    "InvalidArgument",
    "tag exceeds 4096 characters",
  ]);
  for (let count = 0; count < 5; count += 1) await begin();
  expect((await faultOf(begin()))[0]).toBe("ResourceExhausted");
  await begin("small", []);
});

test("processes that were let start can be listed, however their commands are written", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const words = Array.from({ length: 11 }, () => "\u0001".repeat(100_000));
  const process = { cmd: "sh", args: ["-c", "sleep 60", ...words] };
  const begin = () => daemon.processes.start({ process })[Symbol.asyncIterator]().next();
  await begin();
  expect((await faultOf(begin()))[0]).toBe("ResourceExhausted");
  const listed = await daemon.http("/process.Process/List", {
    method: "POST",
    headers: { "content-type": "application/json", "connect-protocol-version": "1" },
    body: "{}",
  });
  expect(listed.status).toBe(200);
  expect(listed.bytes.length).toBeLessThanOrEqual(8 * 1024 * 1024);
});

test("a listing of more than 20,000 entries says so and holds none of them", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "many");
  await mkdir(path);
  const file = await oneFile(daemon);
  for (let start = 0; start < 20_001; start += 1_000) {
    const names = Array.from({ length: 1_000 }, (_, index) => join(path, `f${start + index}`));
    await Promise.all(names.map(async (name) => link(file, name)));
  }
  const growth = await growthOf(daemon, async () => {
    for (let count = 0; count < 5; count += 1) {
      expect((await faultOf(daemon.files.listDir({ path })))[0]).toBe("ResourceExhausted");
    }
  });
  expect(growth).toBeLessThan(64);
});

test("the 257th tunnel is 429", async () => {
  await using daemon = await startTestDaemon();
  await using echo = await startEchoServer();
  const open = async () => {
    const socket = connect(daemon.controlSocket);
    socket.write(
      `GET /tunnel/${echo.port} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n`,
    );
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    socket.once("data", (chunk: Buffer) => resolve(chunk.toString("latin1", 0, 12)));
    socket.once("error", reject);
    return { socket, status: await promise };
  };
  const tunnels = await Promise.all(Array.from({ length: 256 }, open));
  const last = await open();
  for (const { socket } of [...tunnels, last]) socket.destroy();
  expect([new Set(tunnels.map(({ status }) => status)), last.status]).toEqual([
    new Set(["HTTP/1.1 101"]),
    "HTTP/1.1 429",
  ]);
});

test("a watch whose events nobody takes ends with an error instead of a queue", async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "w");
  await mkdir(path);
  const { watcherId } = await daemon.files.createWatcher({ path });
  const flood = async (round: number) => {
    // A file has at most 65,000 names.
    const file = await oneFile(daemon, `of ${round}`);
    const tail = `${round}${"x".repeat(239)}`;
    for (let start = 0; start < 40_000; start += 500) {
      const names = Array.from({ length: 500 }, (_, index) =>
        join(path, `${start + index}${tail}`),
      );
      await Promise.all(names.map(async (name) => link(file, name)));
    }
  };
  const growth = await growthOf(daemon, async () => flood(0));
  const ask = async () => (await faultOf(daemon.files.getWatcherEvents({ watcherId })))[1];
  // On a machine with other work the kernel drops events before a daemon that lags queues them.
  let said = await ask();
  for (let round = 1; round < 5 && !said.includes("overflow"); round += 1) {
    await flood(round);
    said = await ask();
  }
  expect(said).toContain("overflow");
  expect(growth).toBeLessThan(96);
});
