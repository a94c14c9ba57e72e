/**
 * The daemon itself, on its own socket: round trips, streams, files, composing, slow readers. Each
 * floor is the same work by a plain process, pipe, file server or copy of the same run.
 */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { startTestDaemon, type TestDaemon } from "../test/support/envd.ts";
import { measureSlowReaders } from "../test/support/slow-readers.ts";
import { startRaw } from "../test/support/start-stream.ts";
import { measurePair, timed, type Figure } from "./figure.ts";

const TRIP_SAMPLES = 50;
const STREAM_SAMPLES = 5;
const COMPOSE_SAMPLES = 3;
const STREAM_BYTES = 100_000_000;
const STREAM_MB = STREAM_BYTES / 1e6;
const PARTS = 10;
const READERS = 100;
const MIB = 1024 * 1024;

export async function measureWire(): Promise<Figure[]> {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  return [
    ...(await measureTrips(daemon)),
    await measureOutput(daemon, "json"),
    await measureOutput(daemon, "binary"),
    ...(await measureTransfers(daemon)),
    await measureCompose(daemon),
    ...(await measureReaders(daemon)),
  ];
}

async function measureTrips({ publicSocket: socketPath }: TestDaemon): Promise<Figure[]> {
  const trip = await measurePair({
    name: "true, round trip on the wire",
    floorName: "plain spawn of true",
    samples: TRIP_SAMPLES,
    ours: async () => (await startRaw({ socketPath, command: ["true"], isBinary: false })).totalMs,
    floor: async () => timed(async () => once(spawn("true"), "exit")),
  });
  const command = ["echo", "x".repeat(100)] as const;
  const first = await measurePair({
    name: "first byte on the wire",
    floorName: "first byte of a plain spawn",
    samples: TRIP_SAMPLES,
    ours: async () => (await startRaw({ socketPath, command, isBinary: false })).firstByteMs,
    floor: async () => timed(async () => once(spawn("echo", ["x"]).stdout, "data")),
  });
  return [trip, first];
}

async function measureOutput(daemon: TestDaemon, codec: "json" | "binary"): Promise<Figure> {
  const command = ["head", "-c", String(STREAM_BYTES), "/dev/zero"] as const;
  const [file, ...args] = command;
  return measurePair({
    name: `output of a process, ${codec}`,
    floorName: "a pipe",
    samples: STREAM_SAMPLES,
    megabytes: STREAM_MB,
    ours: async () => {
      const isBinary = codec === "binary";
      const socketPath = daemon.publicSocket;
      return (await startRaw({ socketPath, command, isBinary })).totalMs;
    },
    floor: async () =>
      timed(async () => {
        const child = spawn(file, args, { stdio: ["ignore", "pipe", "ignore"] });
        child.stdout.resume();
        await once(child, "close");
      }),
  });
}

/** GET and POST against a file server of a dozen lines on a socket of the same kind. */
async function measureTransfers(daemon: TestDaemon): Promise<Figure[]> {
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
  const base = { floorName: "bare file server", samples: STREAM_SAMPLES, megabytes: STREAM_MB };
  try {
    const read = await measurePair({
      ...base,
      name: "GET /files",
      ours: async () => transfer(daemon.publicSocket, path),
      floor: async () => transfer(socketPath, path),
    });
    const write = await measurePair({
      ...base,
      name: "POST /files",
      ours: async () => transfer(daemon.publicSocket, path, bytes),
      floor: async () => transfer(socketPath, path, bytes),
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
async function measureCompose(daemon: TestDaemon): Promise<Figure> {
  const sources = Array.from({ length: PARTS }, (_, index) => join(daemon.folder, `part${index}`));
  const target = join(daemon.folder, "whole");
  const bytes = Buffer.alloc(STREAM_BYTES, "sandbox-mcp ");
  const prepare = async () => {
    await rm(target, { force: true });
    for (const source of sources) await writeFile(source, bytes);
  };
  return measurePair({
    name: "compose of 10 x 100 MB, with sync",
    floorName: "cat and sync",
    samples: COMPOSE_SAMPLES,
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
    floor: async () => {
      await prepare();
      const script = 'target=$1; shift; cat -- "$@" > "$target"; sync "$target"';
      const args = ["-c", script, "sh", target, ...sources];
      return timed(async () => promisify(execFile)("sh", args));
    },
  });
}

/** The second of two rounds: the first one grows what the daemon keeps for its own use. */
async function measureReaders(daemon: TestDaemon): Promise<Figure[]> {
  await measureSlowReaders(daemon, READERS);
  const { beforeMs, duringMs, growthBytes } = await measureSlowReaders(daemon, READERS);
  const base = { samples: 1, floorName: "the same without them" };
  return [
    {
      ...base,
      name: `p99 beside ${READERS} that never read`,
      unit: "ms",
      ours: duringMs,
      floor: beforeMs,
    },
    {
      ...base,
      name: "growth of the daemon for them",
      unit: "MiB",
      ours: growthBytes / MIB,
      floor: 0,
    },
  ];
}
