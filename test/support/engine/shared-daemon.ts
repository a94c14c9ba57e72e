/**
 * The daemon's folder, made once in a run of tests for all of its homes: it has a hundred megabytes,
 * and making it takes a processor for a second. A home has a link to it. Another program, or other
 * files of it, have another name: a service that does not find its own makes it as ever.
 */

import { mkdir, readdir, stat, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { DaemonSources } from "../../../src/engine/daemon/daemon.ts";

/** In the folder of a run; outside of a run of tests nothing is shared. */
export const SHARED = "shared";
const DAEMONS = "daemon";

/** The folder of what the homes of this run share; undefined outside of a run. */
export async function findShared(): Promise<string | undefined> {
  const shared = join(tmpdir(), SHARED);
  return (await stat(shared).catch(() => undefined)) && shared;
}

/** Gives a home the daemon of the built service. */
export async function shareServiceDaemon(home: string): Promise<void> {
  await shareDaemon(home, "service", async () => {
    const { daemonSources } = await import("../../../src/commands/service/engine.ts");
    const { findProgramFiles } = await import("../../../src/commands/program/program-files.ts");
    return daemonSources(findProgramFiles());
  });
}

/** Gives a home the daemon of these files; equal names mean equal files. */
export async function shareDaemon(
  home: string,
  name: string,
  findSources: () => Promise<DaemonSources>,
): Promise<void> {
  const shared = await findShared();
  if (shared === undefined) return;
  const place = join(shared, name);
  const [made] = await readdir(join(place, DAEMONS)).catch(() => []);
  const daemon =
    made === undefined || made.endsWith(".part")
      ? await makeDaemon(place, await findSources())
      : join(place, DAEMONS, made);
  await mkdir(join(home, DAEMONS), { recursive: true, mode: 0o700 });
  await symlink(daemon, join(home, DAEMONS, basename(daemon)));
}

async function makeDaemon(place: string, sources: DaemonSources): Promise<string> {
  const { prepareDaemon } = await import("../../../src/engine/daemon/daemon.ts");
  await mkdir(place, { recursive: true, mode: 0o700 });
  return prepareDaemon(place, sources);
}
