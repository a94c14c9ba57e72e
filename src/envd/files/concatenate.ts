/** Copies files one after another into an open one; by the kernel itself where that works. */

import { spawn } from "node:child_process";
import { constants } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";
import { fileErrorText, isDiskFull } from "../errno.ts";
import { open } from "../file-system.ts";

/** Sources that are open at once. */
const MAX_OPEN = 64;
const FIRST_FD = 3;
const COPY_BYTES = 1_048_576;
/** Never waits for the other end of a pipe, never takes a terminal. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
/** Of a file that reports no length but has content, as those of the kernel: some have no end. */
const MAX_UNKNOWN_BYTES = 16_777_216;
const TOOL_PATH = "/usr/bin:/bin";

/**
 * Fills a file, empty until now and open for writing, with the content of the sources in order.
 * @throws SandboxError resource_exhausted for a full disk, internal; the signal's reason
 */
export async function concatenate(
  sources: readonly string[],
  target: FileHandle,
  signal: AbortSignal,
): Promise<void> {
  if (await copyByKernel(sources, target, signal)) return;
  signal.throwIfAborted();
  // Our own copy is slower, but it can tell which source failed and why.
  await target.truncate(0);
  let position = 0;
  for (const source of sources) position = await copy(source, { target, position }, signal);
}

/**
 * coreutils' cat lets the kernel move the bytes; false when it is not there or has failed, and for
 * files of unknown length, which it would wait for.
 */
async function copyByKernel(
  sources: readonly string[],
  target: FileHandle,
  signal: AbortSignal,
): Promise<boolean> {
  for (let start = 0; start < sources.length; start += MAX_OPEN) {
    await using opened = new AsyncDisposableStack();
    const files: FileHandle[] = [];
    for (const source of sources.slice(start, start + MAX_OPEN)) {
      files.push(opened.use(await openSource(source)));
    }
    const unknown = await Promise.all(files.map(hasUnknownLength));
    if (unknown.includes(true) || !(await runCat(files, target, signal))) return false;
  }
  return true;
}

async function hasUnknownLength(file: FileHandle): Promise<boolean> {
  if ((await file.stat()).size > 0) return false;
  try {
    return (await file.read(Buffer.alloc(1), 0, 1, 0)).bytesRead > 0;
  } catch {
    // Our own copy tells why.
    return true;
  }
}

/** It gets open files: a name may be that of a pipe by now, for whose other end it would wait. */
async function runCat(
  sources: readonly FileHandle[],
  target: FileHandle,
  signal: AbortSignal,
): Promise<boolean> {
  const names = sources.map((_, index) => `/proc/self/fd/${index + FIRST_FD}`);
  const child = spawn("cat", ["--", ...names], {
    cwd: "/",
    env: { PATH: TOOL_PATH },
    stdio: ["ignore", target.fd, "ignore", ...sources.map(({ fd }) => fd)],
    signal,
    killSignal: "SIGKILL",
  });
  const { promise, resolve } = Promise.withResolvers<boolean>();
  child.once("error", () => resolve(false));
  child.once("close", (code) => resolve(code === 0));
  return promise;
}

async function copy(
  source: string,
  { target, position }: { readonly target: FileHandle; readonly position: number },
  signal: AbortSignal,
): Promise<number> {
  await using file = await openSource(source);
  const buffer = Buffer.alloc(COPY_BYTES);
  const limit =
    (await file.stat()).size > 0 ? Number.POSITIVE_INFINITY : position + MAX_UNKNOWN_BYTES;
  let end = position;
  try {
    for (;;) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return end;
      await writeFully(target, buffer.subarray(0, bytesRead), end);
      end += bytesRead;
      if (end > limit) throw endless(source);
    }
  } catch (error) {
    if (error === signal.reason || error instanceof SandboxError) throw error;
    const full = "not enough disk space available";
    if (isDiskFull(error)) throw new SandboxError("resource_exhausted", full, { cause: error });
    const message = `error composing source ${source}: ${fileErrorText("copy", source, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

function endless(source: string): SandboxError {
  const reason = `its length is not known, and it has more than ${MAX_UNKNOWN_BYTES} bytes`;
  return new SandboxError("invalid_argument", `error composing source ${source}: ${reason}`);
}

async function openSource(source: string): Promise<FileHandle> {
  let file: FileHandle;
  try {
    file = await open(source, OPEN_FLAGS);
  } catch (error) {
    const message = `error opening source file ${source}: ${fileErrorText("open", source, error)}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  const message = `error composing source ${source}: it is no regular file any more`;
  throw new SandboxError("invalid_argument", message);
}

async function writeFully(target: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let offset = 0; offset < bytes.length;) {
    const { bytesWritten } = await target.write(
      bytes,
      offset,
      bytes.length - offset,
      position + offset,
    );
    offset += bytesWritten;
  }
}
