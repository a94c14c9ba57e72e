/** A disk of its own for a home whose every write and flush is recorded. */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, open, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { detachCopies } from "../../../src/engine/storage/mount-point.ts";
import { baseLayers } from "../base-layer.ts";
import { openCloningDisk } from "../faults/cloning-disk.ts";
import type { TestHome } from "../home.ts";
import { answerOf } from "./child-answer.ts";
import type { Recording } from "./cut-disks.ts";
import { openMemoryFolder } from "./memory-folder.ts";
import type { LogPaths } from "./write-log.ts";

const run = promisify(execFile);
/** As the recorder names it. */
const DISK_NAME = "disk";
const RECORDER = resolve(import.meta.dirname, "recorder.ts");

/** Larger than the reserve of a service and what tests write. */
const DISK_BYTES = 8 * 1024 ** 3;
/** Nothing is written that the kernel could write as well before a file system is in use. */
const FORMAT = ["-q", "-F", "-m", "0", "-J", "size=32", "-E", "nodiscard,lazy_itable_init=1"];
/** Nothing reaches the disk before it is asked for: neither by time nor by a rename. */
const OPTIONS = "noauto_da_alloc,commit=300,noinit_itable";
const POSITION_BYTES = 8;
/** What ended just now may use a mount for a moment. */
const BUSY_LIMIT_MS = 60_000;
const POLL_MS = 5;

export interface RecordedDisk extends TestHome {
  /** How many writes and flushes there were. */
  position(): number;
  /** No more are recorded: what follows is no part of any cut. Cuts can be made once it is unmounted. */
  end(): Promise<Recording>;
  /** Shows the base template in the home, which takes no space of it. */
  bindBase(): Promise<void>;
  /** Nothing may use the home any more. */
  unmount(): Promise<void>;
}

/** Mounts an empty disk with the base template in it. */
export async function openRecordedDisk(): Promise<RecordedDisk> {
  await using stack = new AsyncDisposableStack();
  const memory = stack.use(await openMemoryFolder());
  // Cuts are copies of a disk that share its blocks.
  const copies = stack.use(await openCloningDisk(memory.path));
  const directory = await mkdtemp(join(tmpdir(), "smcp-c-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const [files, path] = [join(directory, "files"), join(directory, "h")];
  for (const made of [files, path]) await mkdir(made);
  const past = join(copies.path, "past");
  const paths = await makeFiles(directory, past);
  const recorder = stack.use(await startRecorder(files, paths));
  const count = openSync(paths.position, "r");
  stack.defer(() => closeSync(count));
  const bytes = Buffer.alloc(POSITION_BYTES);
  const file = join(files, DISK_NAME);
  const unmount = async () => unmountAll(path, file);
  stack.defer(unmount);
  const disk = {
    path,
    position() {
      readSync(count, bytes, 0, POSITION_BYTES, 0);
      return Number(bytes.readBigUInt64LE());
    },
    async end() {
      await recorder.end();
      return { paths, past, copies: copies.path, home: path };
    },
    bindBase: async () => bindBase(path),
    unmount,
  };
  await run("mount", ["-o", `loop,${OPTIONS}`, file, path]);
  await disk.bindBase();
  const owned = stack.move();
  return { ...disk, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function makeFiles(directory: string, past: string): Promise<LogPaths> {
  const at = (name: string) => join(directory, name);
  const paths = {
    now: at("now"),
    log: at("log"),
    position: at("position"),
    entries: at("entries"),
  };
  const file = await open(paths.now, "wx");
  await file.truncate(DISK_BYTES);
  await file.close();
  await run("mkfs.ext4", [...FORMAT, paths.now]);
  await run("cp", ["--sparse=always", paths.now, past]);
  writeFileSync(paths.position, Buffer.alloc(POSITION_BYTES));
  return paths;
}

interface Recorder extends AsyncDisposable {
  /** Ends the log. */
  end(): Promise<void>;
}

async function startRecorder(files: string, paths: LogPaths): Promise<Recorder> {
  const child = spawn(process.execPath, [RECORDER, files, JSON.stringify(paths)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  await answerOf(child, "recorder");
  return {
    async end() {
      const answer = answerOf(child, "recorder");
      child.send("end");
      await answer;
    },
    async [Symbol.asyncDispose]() {
      const exit = once(child, "exit");
      child.disconnect();
      await exit;
    },
  };
}

async function bindBase(home: string): Promise<void> {
  const [layer] = await baseLayers();
  const source = dirname(layer?.root ?? "");
  const target = join(home, "layers", basename(source));
  await mkdir(target, { recursive: true });
  await run("mount", ["--bind", source, target]);
  // A home that is removed by mistake must not take the base of the machine along.
  await run("mount", ["-o", "remount,bind,ro", target]);
}

/** Also waits until the file of the disk is free. */
async function unmountAll(path: string, file: string): Promise<void> {
  const endMs = performance.now() + BUSY_LIMIT_MS;
  while (isMounted(path)) {
    // Something may be just ending in it.
    await run("umount", ["-R", path]).catch(async (error: unknown) => {
      if (performance.now() > endMs) throw error;
      await delay(POLL_MS);
    });
  }
  // A program that made a mount namespace meanwhile would keep the file for as long as it runs.
  await detachCopies(path);
  while ((await readdir("/sys/block")).some((name) => backingOf(name) === file)) {
    if (performance.now() > endMs) throw new Error("a loop device is still in use");
    await delay(POLL_MS);
  }
}

function isMounted(path: string): boolean {
  return readFileSync("/proc/self/mounts", "utf8").includes(` ${path} `);
}

function backingOf(name: string): string {
  if (!name.startsWith("loop")) return "";
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").trimEnd();
  } catch {
    return "";
  }
}
