/** A burst of new files in new folders, seen by a recursive watcher of the daemon. */

import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { startTestDaemon, type TestDaemon } from "../test/support/daemon/envd.ts";
import type { BenchContext } from "./context.ts";
import { median, type Row } from "./figure.ts";
import type { Peers } from "./peers.ts";

const FOLDERS = 100;
const FILES_EACH = 100;
const FILES = FOLDERS * FILES_EACH;
const SAMPLES = 3;
const QUIET_MS = 1_000;
const LIMIT_MS = 20_000;

/** Makes them as fast as one process can. */
const MAKER = `const fs = require("node:fs");
for (let folder = 0; folder < ${FOLDERS}; folder += 1) {
  fs.mkdirSync("d" + folder);
  for (let file = 0; file < ${FILES_EACH}; file += 1) fs.writeFileSync("d" + folder + "/f" + file, "");
}`;

interface Watched {
  readonly ms: number;
  readonly seen: number;
}

export async function measureWatch({ peers }: BenchContext): Promise<Row[]> {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const mine: Watched[] = [];
  const floors: Watched[] = [];
  for (let round = 0; round <= SAMPLES; round += 1) {
    const ours = await watchOurs(daemon);
    const floor = await watchFloor(daemon.folder, peers);
    if (round === 0) continue;
    mine.push(ours);
    if (floor !== undefined) floors.push(floor);
  }
  const ours = median(mine.map(({ ms }) => ms));
  const floor = floors.length === 0 ? undefined : median(floors.map(({ ms }) => ms));
  const lost = Math.max(...mine.map(({ seen }) => FILES - seen));
  const theirs = Math.max(0, ...floors.map(({ seen }) => FILES - seen));
  return [
    {
      id: "watch",
      name: `watcher: ${FILES} new files in ${FOLDERS} new directories`,
      unit: "ms",
      ours,
      ...(floor !== undefined && { floor, floorName: `inotifywait -r (missed ${theirs})` }),
      samples: mine.length,
      peers: [],
      verdicts: [
        { goal: "all seen", isMet: lost === 0 },
        ...(floor === undefined ? [] : [{ goal: "≤ 2 x", isMet: ours <= 2 * floor }]),
      ],
    },
  ];
}

async function makeFiles(folder: string): Promise<void> {
  await promisify(execFile)(process.execPath, ["-e", MAKER], { cwd: folder });
}

/** Until the last file was told, or nothing came any more. */
async function watchOurs(daemon: TestDaemon): Promise<Watched> {
  const folder = await mkdtemp(join(daemon.folder, "watch-"));
  const end = AbortSignal.timeout(LIMIT_MS);
  const stream = daemon.files.watchDir({ path: folder, recursive: true }, { signal: end });
  const seen = new Set<string>();
  let startedAt = 0;
  let lastAt = 0;
  try {
    for await (const { event } of stream) {
      if (event.case === "start") {
        startedAt = performance.now();
        // A fault of it shows as files that were not seen.
        void makeFiles(folder).catch(() => undefined);
      }
      if (event.case !== "filesystem" || !event.value.name.includes("/")) continue;
      seen.add(event.value.name);
      lastAt = performance.now();
      if (seen.size === FILES) break;
    }
  } catch (error) {
    if (!end.aborted) throw error;
  }
  await rm(folder, { recursive: true });
  return { ms: lastAt - startedAt, seen: seen.size };
}

async function watchFloor(parent: string, peers: Peers): Promise<Watched | undefined> {
  const { inotifywait } = peers.debian;
  if ("missing" in inotifywait) return undefined;
  const folder = await mkdtemp(join(parent, "floor-"));
  const child = spawn(inotifywait.path, ["-m", "-r", "-e", "create", "--format", "%w%f", folder], {
    env: { LD_LIBRARY_PATH: peers.libraryPath },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for await (const line of createInterface({ input: child.stderr })) {
    if (line.includes("established")) break;
  }
  const seen = new Set<string>();
  const startedAt = performance.now();
  let lastAt = startedAt;
  const { promise, resolve } = Promise.withResolvers<void>();
  let quiet = setTimeout(resolve, LIMIT_MS);
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (!/\/f\d+$/.test(line)) return;
    seen.add(line);
    lastAt = performance.now();
    clearTimeout(quiet);
    if (seen.size === FILES) resolve();
    // What it missed never comes.
    else quiet = setTimeout(resolve, QUIET_MS);
  });
  await makeFiles(folder);
  await promise;
  clearTimeout(quiet);
  child.kill("SIGKILL");
  await rm(folder, { recursive: true });
  return { ms: lastAt - startedAt, seen: seen.size };
}
