/** A home on a file system in which single writes fail. */

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { release, tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { z } from "../../../src/common/schema.ts";
import { baseLayers } from "../base-layer.ts";
import { whyNoFuse } from "../faults/fuse.ts";
import type { TestHome } from "../home.ts";
import { writesSchema, type FaultPlan, type Writes } from "./faults.ts";
import type { Order } from "./server.ts";

const run = promisify(execFile);
const SERVER = resolve(import.meta.dirname, "server.ts");
/** From which on mounts of such a file system may show other ids, which sandboxes need. */
const [KERNEL_MAJOR, KERNEL_MINOR] = [6, 12];
/** A program that was just ended may still use a mount for a moment. */
const BUSY_LIMIT_MS = 20_000;
const POLL_MS = 20;
const endedSchema = z.object({ writes: writesSchema, isHit: z.boolean() });

export interface FaultyHome extends TestHome {
  /** Counts writes from now on, and lets one fail. */
  begin(plan?: FaultPlan): Promise<void>;
  /** What was counted, and whether the planned write has come. */
  end(): Promise<{ readonly writes: Writes; readonly isHit: boolean }>;
}

/** Why there can be no such home here; empty where there can. */
export function whyNoFaultyHome(): string {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  const isNew = major > KERNEL_MAJOR || (major === KERNEL_MAJOR && minor >= KERNEL_MINOR);
  return whyNoFuse() || (isNew ? "" : `needs Linux ${KERNEL_MAJOR}.${KERNEL_MINOR}`);
}

/** With the base template in it, whose files are no part of that file system. */
export async function openFaultyHome(): Promise<FaultyHome> {
  await using stack = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "smcp-w-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const [folder, path] = [join(directory, "files"), join(directory, "h")];
  const [layer] = await baseLayers();
  const source = dirname(layer?.root ?? "");
  const base = join("layers", basename(source));
  await mkdir(path);
  await mkdir(join(folder, base), { recursive: true });
  const server = stack.use(startServer());
  await server.ask({ folder, target: path });
  stack.defer(() => unmountAll(path));
  const target = join(path, base);
  await run("mount", ["--bind", source, target]);
  // A home that is removed by mistake must not take the base of the machine along.
  await run("mount", ["-o", "remount,bind,ro", target]);
  const owned = stack.move();
  return {
    path,
    begin: async (plan) => void (await server.ask({ begin: plan ?? null })),
    end: async () => endedSchema.parse(await server.ask({ end: true })),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Server extends AsyncDisposable {
  ask(order: Order): Promise<unknown>;
}

function startServer(): Server {
  const child = spawn(process.execPath, [SERVER], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  return {
    async ask(order) {
      const answer = answerOf(child);
      child.send(order);
      return answer;
    },
    async [Symbol.asyncDispose]() {
      const exit = once(child, "exit");
      if (child.connected) child.disconnect();
      await exit;
    },
  };
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const stop = new AbortController();
  const ended = once(child, "exit", { signal: stop.signal }).then(() => {
    throw new Error("the file system ended");
  });
  try {
    const [answer]: unknown[] = await Promise.race([
      once(child, "message", { signal: stop.signal }),
      ended,
    ]);
    return answer;
  } finally {
    stop.abort();
    // Its wait was given up.
    await ended.catch(() => undefined);
  }
}

/** What lies below the file system; that goes with its server. */
async function unmountAll(path: string): Promise<void> {
  const endMs = performance.now() + BUSY_LIMIT_MS;
  for (;;) {
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
    const below = mounts.map((line) => line.split(" ")[1] ?? "");
    const [last] = below.filter((target) => target.startsWith(`${path}/`)).toReversed();
    if (last === undefined) return;
    await run("umount", [last]).catch(async (error: unknown) => {
      if (performance.now() > endMs) throw error;
      await delay(POLL_MS);
    });
  }
}
