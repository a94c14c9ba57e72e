/**
 * Pipes for standard streams. Node joins a child by sockets, and those cannot be opened by path:
 * `echo problem > /dev/stderr` would fail. A pipe that has had a name can.
 */

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { closeSync, constants, existsSync, openSync, unlinkSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { DEFAULT_PATH, type Command } from "../bundled-program.ts";

/** Both ends by their descriptors, neither inherited by anyone unless it is told to be. */
export interface Pipe {
  readonly reader: number;
  readonly writer: number;
}

export interface PipeSource {
  /** Makes some, so that the first process has not to wait for them; no helper runs on then. */
  prepare(): Promise<void>;
  /** A fresh pipe; the one that takes it closes both ends. */
  take(): Promise<Pipe>;
}

/** A process takes two or three; one helper run makes enough for ten, which costs it some 5 ms. */
const BATCH = 30;
/** With fewer left others are made beside the work; a process does not have to wait for them. */
const LOW = 6;
/** A helper that takes longer hangs. */
const HELPER_TIMEOUT_MS = 10_000;
/** In memory, so that a full disk starts processes too. */
const MEMORY_FOLDER = "/dev/shm";

/** Makes pipes in batches, by `make-pipes.pl`. */
export function createPipeSource([file, ...before]: Command): PipeSource {
  const ready: Pipe[] = [];
  let making: Promise<void> | undefined;

  async function make(): Promise<void> {
    const parent = existsSync(MEMORY_FOLDER) ? MEMORY_FOLDER : tmpdir();
    const directory = join(parent, `envd-${randomUUID()}`);
    // It makes the directory, and removes it at the end of its input: a daemon that is killed, or has no
    // descriptor left, leaves none.
    const child = spawn(file, [...before, process.arch, directory, `${BATCH}`], {
      env: { PATH: DEFAULT_PATH, LC_ALL: "C" },
      stdio: ["pipe", "ignore", "pipe"],
      timeout: HELPER_TIMEOUT_MS,
      killSignal: "SIGKILL",
    });
    const ended = once(child, "exit").catch(() => undefined);
    await once(child, "spawn");
    try {
      const fault = await text(child.stderr);
      if (fault !== "") throw new Error(fault.trim());
      for (const name of await readdir(directory)) {
        const path = join(directory, name);
        ready.push(openPipe(path));
        unlinkSync(path);
      }
    } finally {
      child.stdin.destroy();
      // No helper is there in a sandbox that is frozen next.
      await ended;
    }
  }

  function refill(): Promise<void> {
    making ??= make().finally(() => {
      making = undefined;
    });
    return making;
  }

  return {
    async prepare() {
      if (making !== undefined || ready.length < LOW) await refill();
    },
    async take() {
      for (;;) {
        const pipe = ready.pop();
        if (pipe === undefined) {
          await refill();
          continue;
        }
        // Should it fail, the caller that finds none left tries again and is told why.
        if (ready.length < LOW) void refill().catch(() => undefined);
        return pipe;
      }
    },
  };
}

/** Closes both ends, wherever they are still open. */
export function closePipe({ reader, writer }: Pipe): void {
  closeSync(reader);
  closeSync(writer);
}

function openPipe(path: string): Pipe {
  // A first reader that does not wait for a writer; both lasting ends are blocking ones.
  const first = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const writer = openSync(path, constants.O_WRONLY);
    try {
      return { reader: openSync(path, constants.O_RDONLY), writer };
    } catch (error) {
      closeSync(writer);
      throw error;
    }
  } finally {
    closeSync(first);
  }
}
