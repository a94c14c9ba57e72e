/**
 * What the first start of a service leaves for the next ones, kept once in a run of tests: Node's
 * compiled code of the program, and the result of the engine's probe. A later home gets copies, as a
 * home that was used before has them. A service that cannot use them compiles and probes as ever.
 */

import { cp, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findShared } from "./shared-daemon.ts";

const PLACE = "start";
const CACHE = "cache";
/** One for each runtime that is asked for. */
const PROBE = /^engine-probe.*\.json$/;
/** In place of the path of the home, which is part of the key of a result. */
const ANY_HOME = "<home>";

/** Gives a new home what an earlier one of the same run left. */
export async function shareStart(home: string): Promise<void> {
  const place = await findPlace();
  if (place === undefined || !(await isThere(place))) return;
  await cp(join(place, CACHE), join(home, CACHE), { recursive: true });
  for (const name of await probesOf(place)) {
    const probe = await readFile(join(place, name), "utf8");
    await writeFile(join(home, name), probe.replaceAll(ANY_HOME, home));
  }
}

/** The names of the results of probes that a home has. */
export async function probesOf(home: string): Promise<string[]> {
  return (await readdir(home)).filter((name) => PROBE.test(name));
}

/** Keeps what the ended services of a home left, if no other home was earlier. */
export async function keepStart(home: string): Promise<void> {
  const place = await findPlace();
  if (place === undefined || (await isThere(place))) return;
  // One that was killed writes no compiled code; one that failed has no result.
  const probes = await probesOf(home);
  if (!(await isThere(join(home, CACHE))) || probes.length === 0) return;
  const draft = await mkdtemp(`${place}-`);
  await cp(join(home, CACHE), join(draft, CACHE), { recursive: true });
  for (const name of probes) {
    const probe = await readFile(join(home, name), "utf8");
    await writeFile(join(draft, name), probe.replaceAll(home, ANY_HOME));
  }
  // Another test was quicker where the name is taken.
  await rename(draft, place).catch(() => rm(draft, { recursive: true, force: true }));
}

async function findPlace(): Promise<string | undefined> {
  const shared = await findShared();
  return shared && join(shared, PLACE);
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
