/**
 * The daemon itself, on its own socket: round trips, streams, files, composing, slow readers. Each
 * floor is the same work by a plain process, pipe, file server or copy of the same run.
 */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { startTestDaemon, type TestDaemon } from "../test/support/daemon/envd.ts";
import { startRaw } from "../test/support/daemon/start-stream.ts";
import { measureSlowReaders } from "../test/support/hostile/slow-readers.ts";
import { atLeast, below, compare, timed, type Row } from "./figure.ts";

const TRIPS = { samples: 50, budgetMs: 5_000 };
const STREAMS = { samples: 5, budgetMs: 15_000 };
const COMPOSES = { samples: 3, budgetMs: 1 };
const STREAM_BYTES = 100_000_000;
const STREAM_MB = STREAM_BYTES / 1e6;
const PARTS = 10;
const READERS = 100;
const MIB = 1024 * 1024;

export async function measureWire(): Promise<Row[]> {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  return [
    await measureTrips(daemon),
    await measureOutput(daemon, "json"),
    await measureOutput(daemon, "binary"),
    ...(await measureTransfers(daemon)),
    await measureCompose(daemon),
    ...(await measureReaders(daemon)),
  ];
}

async function measureTrips({ publicSocket: socketPath }: TestDaemon): Promise<Row> {
  return compare({
    ...TRIPS,
    id: "wire-run",
    name: "`true`, round trip on the wire",
    ours: async () => (await startRaw({ socketPath, command: ["true"], isBinary: false })).totalMs,
    floor: { name: "plain spawn", run: async () => timed(async () => once(spawn("true"), "exit")) },
  });
}

/** At least, in MB/s, by the codec. */
const MIN_RATES = { json: 100, binary: 250 } as const;

/** The floor sends the same bytes by HTTP, with nothing around them. */
async function measureOutput(daemon: TestDaemon, codec: "json" | "binary"): Promise<Row> {
  const command = ["head", "-c", String(STREAM_BYTES), "/dev/zero"] as const;
  const [file, ...args] = command;
  const floorSocket = join(daemon.folder, `output-${codec}.sock`);
  const server = createServer((_incoming, reply) => {
    const child = spawn(file, args, { stdio: ["ignore", "pipe", "ignore"] });
    child.stdout.pipe(reply);
  });
  server.listen(floorSocket);
  await once(server, "listening");
  const socketPath = daemon.publicSocket;
  const isBinary = codec === "binary";
  try {
    return await compare({
      ...STREAMS,
      id: `wire-${codec}`,
      name: `output of a process on the wire, ${codec}`,
      megabytes: STREAM_MB,
      ours: async () => (await startRaw({ socketPath, command, isBinary })).totalMs,
      floor: {
        name: "the same by plain HTTP",
        run: async () => transfer(floorSocket, "/"),
      },
      judge: ({ p50 }) => [{ goal: `≥ ${MIN_RATES[codec]} MB/s`, isMet: p50 >= MIN_RATES[codec] }],
    });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** GET and POST against a file server of a dozen lines on a socket of the same kind. */
async function measureTransfers(daemon: TestDaemon): Promise<Row[]> {
  const path = join(daemon.folder, "file.bin");
  const socketPath = join(daemon.folder, "floor.sock");
  const server = createServer((incoming, reply) => {
    const isWrite = incoming.method === "POST";
    const moved = isWrite
      ? pipeline(incoming, createWriteStream(path))
      : pipeline(createReadStream(path, { highWaterMark: 262_144 }), reply);
    moved.then(
      () => reply.end(),
      () => reply.destroy(),
    );
  });
  server.listen(socketPath);
  await once(server, "listening");
  const bytes = Buffer.alloc(STREAM_BYTES, "sandbox-mcp ");
  await writeFile(path, bytes);
  const base = {
    ...STREAMS,
    megabytes: STREAM_MB,
    judge: ({ ratio }: { readonly ratio: number }) => [atLeast(0.6, ratio)],
  };
  const name = "bare file server";
  try {
    const read = await compare({
      ...base,
      id: "files-get",
      name: "GET /files of 100 MB",
      ours: async () => transfer(daemon.publicSocket, path),
      floor: { name, run: async () => transfer(socketPath, path) },
    });
    const write = await compare({
      ...base,
      id: "files-post",
      name: "POST /files of 100 MB",
      ours: async () => transfer(daemon.publicSocket, path, bytes),
      floor: { name, run: async () => transfer(socketPath, path, bytes) },
    });
    return [read, write];
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

async function transfer(socketPath: string, path: string, body?: Buffer): Promise<number> {
  return timed(async () => {
    const call = request({
      socketPath,
      path: `/files?path=${path}`,
      method: body === undefined ? "GET" : "POST",
      headers: { "content-type": "application/octet-stream", "accept-encoding": "identity" },
    });
    if (body === undefined) call.end();
    else Readable.from([body]).pipe(call);
    const [reply] = await once(call, "response");
    reply.resume();
    await once(reply, "end");
    if (reply.statusCode !== 200) throw new Error(`answered ${reply.statusCode}`);
  });
}

/** Ten files of 100 MB; the floor is `cat`, which lets the kernel copy too, and a sync. */
async function measureCompose(daemon: TestDaemon): Promise<Row> {
  const sources = Array.from({ length: PARTS }, (_, index) => join(daemon.folder, `part${index}`));
  const target = join(daemon.folder, "whole");
  const copies = join(daemon.folder, "copies");
  const bytes = Buffer.alloc(STREAM_BYTES, "sandbox-mcp ");
  const prepare = async () => {
    await rm(target, { force: true });
    for (const source of sources) await writeFile(source, bytes);
    // What is still to be written of them would slow down whoever comes first.
    await promisify(execFile)("sync", ["-f", daemon.folder]);
  };
  const row = await compare({
    ...COMPOSES,
    id: "compose",
    name: "compose of 10 x 100 MB, with sync",
    megabytes: PARTS * STREAM_MB,
    ours: async () => {
      await prepare();
      return timed(async () => {
        const reply = await daemon.http("/files/compose", {
          method: "POST",
          body: JSON.stringify({ source_paths: sources, destination: target }),
        });
        if (reply.status !== 200) throw new Error(reply.text);
      });
    },
    floor: {
      name: "cat (copy_file_range) and sync",
      async run() {
        await prepare();
        const script = 'target=$1; shift; cat -- "$@" > "$target"; sync "$target"';
        const args = ["-c", script, "sh", target, ...sources];
        return timed(async () => promisify(execFile)("sh", args));
      },
    },
    peers: [
      {
        name: "cp --reflink=auto, and sync",
        async run() {
          await prepare();
          await mkdir(copies);
          const script = 'target=$1; shift; cp --reflink=auto -- "$@" "$target"; sync "$target"/*';
          const args = ["-c", script, "sh", copies, ...sources];
          const elapsed = await timed(async () => promisify(execFile)("sh", args));
          await rm(copies, { recursive: true });
          return elapsed;
        },
      },
    ],
    judge: ({ ratio }) => [{ goal: "≤ 1.2 x the time", isMet: ratio >= 1 / 1.2 }],
  });
  await rm(target, { force: true });
  return row;
}

/** The second of two rounds: the first one grows what the daemon keeps for its own use. */
async function measureReaders(daemon: TestDaemon): Promise<Row[]> {
  await measureSlowReaders(daemon, READERS);
  const { beforeMs, duringMs, growthBytes, isCut } = await measureSlowReaders(daemon, READERS);
  assert(!isCut, "the healthy reader was cut off");
  const growth = growthBytes / MIB;
  const base = { samples: 1, peers: [] };
  return [
    {
      ...base,
      id: "readers",
      name: `p99 of a reader beside ${READERS} readers that never read`,
      unit: "ms",
      ours: duringMs,
      floor: beforeMs,
      floorName: "the same without these readers",
      verdicts: [below("ms", 50, duringMs)],
    },
    {
      ...base,
      id: "readers-growth",
      name: `growth of the daemon beside ${READERS} readers that never read`,
      unit: "MiB",
      ours: growth,
      verdicts: [below("MiB", 8, growth)],
    },
  ];
}
