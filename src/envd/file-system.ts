/** The system's calls for paths of the daemon, whose names need not be UTF-8. */

import type { BigIntStats, Stats, StatsFs } from "node:fs";
import * as system from "node:fs/promises";
import { fromSystemBytes, toSystemPath } from "../common/file-names.ts";

/** @throws the system's error, as all of these */
export async function lstat(path: string): Promise<Stats> {
  return system.lstat(toSystemPath(path));
}

export async function lstatExactly(path: string): Promise<BigIntStats> {
  return system.lstat(toSystemPath(path), { bigint: true });
}

export async function stat(path: string): Promise<Stats> {
  return system.stat(toSystemPath(path));
}

export async function statExactly(path: string): Promise<BigIntStats> {
  return system.stat(toSystemPath(path), { bigint: true });
}

export async function statfs(path: string): Promise<StatsFs> {
  return system.statfs(toSystemPath(path));
}

export async function realpath(path: string): Promise<string> {
  return fromSystemBytes(await system.realpath(toSystemPath(path), { encoding: "buffer" }));
}

export async function readlink(path: string): Promise<string> {
  return fromSystemBytes(await system.readlink(toSystemPath(path), { encoding: "buffer" }));
}

export async function open(
  path: string,
  flags?: number,
  mode?: number,
): Promise<system.FileHandle> {
  return system.open(toSystemPath(path), flags, mode);
}

export async function access(path: string, mode: number): Promise<void> {
  return system.access(toSystemPath(path), mode);
}

export async function mkdir(path: string, mode: number): Promise<void> {
  await system.mkdir(toSystemPath(path), { mode });
}

export async function rename(source: string, target: string): Promise<void> {
  return system.rename(toSystemPath(source), toSystemPath(target));
}

export async function removeFile(path: string): Promise<void> {
  return system.rm(toSystemPath(path), { force: true });
}

/** The names in a folder, as they are read. */
export async function* readNames(path: string): AsyncGenerator<string, void> {
  // The types leave out that names can be asked for as bytes.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const settings = { bufferSize: 256, encoding: "buffer" as BufferEncoding };
  for await (const { name } of await system.opendir(toSystemPath(path), settings)) {
    // The types know names as text alone.
    const bytes: unknown = name;
    yield Buffer.isBuffer(bytes) ? fromSystemBytes(bytes) : name;
  }
}
