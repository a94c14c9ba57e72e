/** Programs by the daemon's own spawner, to their end. */

import { once } from "node:events";
import { Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { DEFAULT_PATH, type Command } from "../../../src/envd/bundled-program.ts";
import type { Launch } from "../../../src/envd/process/launch.ts";
import type { Outcome } from "../../../src/envd/process/outcome.ts";
import {
  createSpawner,
  type Spawned,
  type SpawnOptions,
  type Spawner,
  type SpawnerOptions,
} from "../../../src/envd/process/spawner.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";

/** The daemon's own. */
export const SPAWNER: Command = ["perl", "-f", join(PERL_DIRECTORY, "spawner.pl")];

/** One of the test's own user; its owner disposes of it. */
export function makeSpawner(options: SpawnerOptions = {}): Spawner {
  return createSpawner(SPAWNER, options);
}

/** The process that starts programs. */
export async function parentOf(spawner: Spawner): Promise<number> {
  const script = "cut -d' ' -f4 /proc/$$/stat";
  return Number((await runToEnd(spawner, launchOf(["/bin/sh", "-c", script]))).stdout);
}

/** A launch in the root directory, as the user who runs the test. */
export function launchOf(words: readonly string[], rest: Partial<Launch> = {}): Launch {
  const env = { PATH: DEFAULT_PATH };
  return { words, cwd: "/", env, identity: undefined, ...rest };
}

/** A start that nobody gives up. */
export function startOf(hasInput: boolean): SpawnOptions {
  return { hasInput, signal: new AbortController().signal };
}

export interface Ended {
  readonly outcome: Outcome;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program with an input, or without. */
export async function runToEnd(spawner: Spawner, launch: Launch, input?: string): Promise<Ended> {
  const spawned = await spawner.start(launch, startOf(input !== undefined));
  const { stdin, exited } = spawned;
  if (stdin !== undefined)
    new Socket({ fd: stdin, readable: false, writable: true }).end(input ?? "");
  const [stdout, stderr, outcome] = await Promise.all([
    text(reader(spawned.stdout)),
    text(reader(spawned.stderr)),
    exited,
  ]);
  return { outcome, stdout, stderr };
}

/** What a program prints first. */
export async function readFirst({ stdout }: Spawned): Promise<string> {
  const stream = reader(stdout);
  const [bytes] = await once(stream, "data");
  stream.destroy();
  return String(bytes).trim();
}

function reader(fd: number): Socket {
  return new Socket({ fd, readable: true, writable: false });
}
