/** Runs one of the perl programs by itself: what it is given, and all that it says. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { PERL_DIRECTORY } from "../perl-directory.ts";

export interface PerlRun {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
  /** What came on descriptor 4. */
  readonly reports: string;
}

export interface PerlOptions {
  readonly words?: readonly string[];
  /** What comes on its standard input, at once or when it is there. */
  readonly input?: string | Buffer | Promise<string>;
  /** What descriptor 3 gives; it stays open when it has more to give. */
  readonly orders?: Buffer;
  readonly directory?: string;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const LIMIT_MS = 20_000;

/** Runs a program to its end. */
export async function runPerl(program: string, options: PerlOptions = {}): Promise<PerlRun> {
  const { words = [], input = "", orders, directory = PERL_DIRECTORY, cwd, env = {} } = options;
  const child = spawn("perl", ["-f", join(directory, `${program}.pl`), ...words], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C", ...env },
    // Descriptors 3 and 4 are there for whom they are meant alone.
    stdio: ["pipe", "pipe", "pipe", ...(orders === undefined ? [] : (["pipe", "pipe"] as const))],
    timeout: LIMIT_MS,
    killSignal: "SIGKILL",
  });
  const { stdin, stdout, stderr } = child;
  const [, , , third, fourth] = child.stdio;
  if (stdin === null || stdout === null || stderr === null) throw new Error("no pipes");
  for (const stream of [stdin, third]) stream?.on("error", () => undefined);
  void Promise.resolve(input).then((given) => stdin.end(given));
  if (third instanceof Writable) third.write(orders);
  if (third instanceof Readable) third.resume();
  const [out, said, reports, [code]] = await Promise.all([
    buffer(stdout),
    text(stderr),
    fourth instanceof Readable ? text(fourth) : "",
    once(child, "close"),
  ]);
  return { code, stdout: out, stderr: said, reports };
}

/** A frame: its length in network order, then its bytes. */
export function frame(...parts: readonly (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, body]);
}

/** Fields that each end in NUL. */
export function fields(...values: readonly string[]): string {
  return values.map((value) => `${value}\0`).join("");
}
