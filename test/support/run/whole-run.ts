/**
 * Around a whole run of the security level: what was tested, where, and that nothing of it is left.
 * The facts are written beside the results; `npm run evidence` reads both.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { availableParallelism, release } from "node:os";
import { join, resolve } from "node:path";
import { isDeepStrictEqual, promisify } from "node:util";
import { leftOver, takeCensus, type Census } from "../census.ts";
import { startOciHost } from "../engine/oci-host.ts";
import { attackedRuntimes, installedRuntimes, IS_WHOLE_RUN } from "../runtimes.ts";
import { removeRun } from "./remove-run.ts";
import { makeRunFolder } from "./run-folder.ts";

const run = promisify(execFile);
const FOLDER = resolve(import.meta.dirname, "../../security/latest");

/** What a report must say of the run besides its results. */
export interface Facts {
  readonly commit: string;
  /** Whether the files were those of the commit. */
  readonly isCommitted: boolean;
  readonly kernel: string;
  readonly node: string;
  readonly cores: number;
  readonly runtimes: readonly { readonly name: string; readonly version: string; level: string }[];
  /** Runtimes that are installed and cannot be used, with what the trial said. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  /** Whether processes, mounts, cgroups, id claims and networks were the same afterwards. */
  readonly isCensusEqual: boolean;
}

/** Called by the runner; the returned function is called at the end. */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (!IS_WHOLE_RUN) return undefined;
  // A run without its own report leaves none that its facts could be taken for.
  await rm(join(FOLDER, "run.json"), { force: true });
  const facts = { ...(await describeCode()), ...(await describeMachine()) };
  const homes = await makeRunFolder();
  const before = await look(homes);
  return async () => {
    const after = await look(homes);
    const isCensusEqual = isDeepStrictEqual(after, before);
    await writeFacts({ ...facts, isCensusEqual });
    await removeRun(homes);
    assert.deepEqual(
      after,
      before,
      `the run left something: ${leftOver(before, after).join("; ")}`,
    );
  };
}

/** A folder that a test left holds nothing of a sandbox. */
async function look(homes: string): Promise<Census> {
  return { ...(await takeCensus(homes)), folders: [] };
}

async function describeCode(): Promise<Pick<Facts, "commit" | "isCommitted">> {
  const [head, status] = await Promise.all([
    run("git", ["rev-parse", "--short", "HEAD"]),
    run("git", ["status", "--porcelain", "--", ".", ":!EVIDENCE.md"]),
  ]);
  return { commit: head.stdout.trim(), isCommitted: status.stdout === "" };
}

async function describeMachine(): Promise<Omit<Facts, "commit" | "isCommitted" | "isCensusEqual">> {
  const runtimes = [];
  for (const name of attackedRuntimes()) {
    await using host = await startOciHost(name);
    const { runtime, level } = await host.engine.probe("fresh");
    runtimes.push({ name, version: runtime ?? "refused", level });
  }
  const refused = [];
  for (const name of installedRuntimes().filter((one) => !attackedRuntimes().includes(one))) {
    await using host = await startOciHost(name);
    const { checks } = await host.engine.probe("fresh");
    const check = checks.find((one) => one.name.startsWith("runtime /"));
    refused.push({ name, reason: check?.detail ?? "not tried" });
  }
  const cores = availableParallelism();
  return { kernel: release(), node: process.version, cores, runtimes, refused };
}

async function writeFacts(facts: Facts): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  await writeFile(join(FOLDER, "facts.json"), JSON.stringify(facts, undefined, 2));
}
