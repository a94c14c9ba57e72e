/** What a start finds after a power cut: everything that was acknowledged, and nothing half-made. */

import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pino } from "pino";
import { openHome } from "../../../src/commands/home/home.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { errorText } from "../../../src/common/errors.ts";
import { describeError } from "../../../src/common/log.ts";
import { hasStoreImage, openStoreImage } from "../../../src/engine/storage/store-image.ts";
import { mountVolumeDisks, unmountVolumeDisks } from "../../../src/engine/storage/volume-disk.ts";
import { forgetUnfinished } from "../../../src/sandboxes/reclaim/instance-rows.ts";
import { reclaim } from "../../../src/sandboxes/reclaim/reclaim.ts";
import { openSecrets } from "../../../src/sandboxes/secrets.ts";
import { startVolumeDisks, VOLUME_OWNER_ID } from "../../../src/sandboxes/volumes/volume-disks.ts";
import { finishVolumes, hasDisk } from "../../../src/sandboxes/volumes/volumes.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createBareEngine } from "../engine/bare-engine.ts";
import type { FaultHome } from "../faults/fault-home.ts";
import { findHalves, readBuild, readValue, type OpenedHome } from "./home-values.ts";
import type { Ledger } from "./ledger.ts";

/** Of volumes that the cut left unmade. */
const VOLUME_MB = 64;
const PERL_DIRECTORY = resolve(import.meta.dirname, "../../../src/perl");

/** What happened before the cuts. */
export interface History {
  readonly ledger: Ledger;
  /** What each build holds, by its id. */
  readonly builds: ReadonlyMap<string, string>;
  /** What programs find in their file on a disk or in a layer, by the value of that. */
  readonly texts: ReadonlyMap<string, string>;
  /** Of the content of volumes, by id. */
  readonly tokens: ReadonlyMap<string, string>;
}

/** What the check of a cut needs of it. */
export type Expected = Pick<History, "ledger" | "builds">;

/** Opens the home as a start does, cleans up as it does, and compares. Faults, one line each. */
export async function checkCut(
  path: string,
  history: Expected,
  position: number,
): Promise<string[]> {
  const faults: string[] = [];
  try {
    await openHome(path);
    await using stack = new AsyncDisposableStack();
    stack.use(await openStoreImage({ home: path, perlDirectory: PERL_DIRECTORY }));
    const store = stack.use(openStore({ path: join(path, "state.db") }));
    faults.push(...checkDatabase(path, "state.db"), ...checkDatabase(path, "state.db-logs"));
    const home = { path, store, trees: new Map<string, string>() };
    await openSecrets(path, store);
    faults.push(...(await cleanUp(home)), ...(await findHalves(home)));
    stack.use(await mountVolumes(home));
    return [...faults, ...(await compare(home, history, position))];
  } catch (error) {
    const { message, causes = [] } = describeError(error);
    const reasons = [message, ...causes.map((cause) => cause.message)];
    return [...faults, `the home does not open: ${reasons.join(": ")}`];
  }
}

function checkDatabase(path: string, name: string): string[] {
  const database = new DatabaseSync(join(path, name), { readOnly: true });
  try {
    const rows = database.prepare("PRAGMA integrity_check").all();
    const words = rows.map((row) => String(row["integrity_check"])).join();
    return words === "ok" ? [] : [`${name}: ${words}`];
  } finally {
    database.close();
  }
}

/** As a start of `serve`, and of another service of the home before it. */
async function cleanUp({ path, store }: OpenedHome): Promise<string[]> {
  const faults: string[] = [];
  const volumesDirectory = join(path, "volumes");
  await mkdir(volumesDirectory, { recursive: true, mode: 0o700 });
  forgetUnfinished(store, "serve");
  const { signal: closing } = new AbortController();
  const log = pino({ level: "silent" });
  await using volumeDisks = startVolumeDisks({
    home: path,
    store,
    clock: createSystemClock(),
    log,
    closing,
    volumes: { sizeMb: VOLUME_MB, perlDirectory: PERL_DIRECTORY },
    watches: { note: () => undefined },
  });
  const retry = (subject: string) => void faults.push(`${subject} was not made`);
  await finishVolumes({ store, closing, log, retry, home: path, volumesDirectory, volumeDisks });
  await reclaim({
    engine: createBareEngine({ command: ["false"], perlDirectory: PERL_DIRECTORY }),
    store,
    home: path,
    self: undefined,
    takesKept: false,
    onFailure: ({ kind, name, error }) => faults.push(`${kind} ${name}: ${errorText(error)}`),
  });
  return faults;
}

/** Where their files can be read. */
async function mountVolumes({ path, store }: OpenedHome): Promise<AsyncDisposable> {
  const volumes = store.volumes.all().filter((volume) => hasDisk(volume));
  const disks = volumes.map((volume) => ({ ...volume, owner: VOLUME_OWNER_ID }));
  const holds = await mountVolumeDisks(path, PERL_DIRECTORY, disks);
  return {
    async [Symbol.asyncDispose]() {
      for (const hold of holds) await hold.close();
      // Without a store, which is unmounted next, they go with the home: each takes a few programs.
      if (!hasStoreImage(path)) return;
      const ids = volumes.map(({ volumeId }) => volumeId);
      await unmountVolumeDisks(path, ids);
    },
  };
}

async function compare(home: OpenedHome, history: Expected, position: number): Promise<string[]> {
  const { ledger, builds } = history;
  const faults: string[] = [];
  for (const name of ledger.names) {
    const allowed = ledger.allowed(name, position);
    const value = await readValue(home, name);
    if (!allowed.has(value)) faults.push(`${name} is ${value}, not ${[...allowed].join(" or ")}`);
  }
  for (const build of home.store.builds.all()) {
    const known = builds.get(build.buildId);
    if (known !== undefined && (await readBuild(home, build)) !== known) {
      faults.push(`build ${build.buildId} is not what it was`);
    }
  }
  return faults;
}

interface Use {
  /** What its file must hold. */
  readonly text?: string;
  readonly templateID?: string;
}

/** Starts a service on what the cut left, and uses what was acknowledged. Faults, one line each. */
export async function serveCut(
  home: FaultHome,
  { ledger, texts }: History,
  position: number,
): Promise<string[]> {
  const faults: string[] = [];
  try {
    await forgetBoot(home.path);
    await home.start();
  } catch (error) {
    return [`no start: ${errorText(error)}`];
  }
  const use = async (name: string, path: string, { text, ...body }: Use) => {
    const answer = await home.call("POST", path, { timeout: 3600, secure: false, ...body });
    const id = /"sandboxID":"([^"]+)"/.exec(JSON.stringify(answer?.body) ?? "")?.[1] ?? "";
    if (answer?.status !== 201) faults.push(`${name}: ${JSON.stringify(answer)}`);
    else if (text !== undefined && (await home.enter(id, MARKER))?.body !== text) {
      faults.push(`${name} has not its file`);
    }
  };
  const known = ledger.names.flatMap((name) => {
    const [value, ...others] = ledger.allowed(name, position);
    const text = others.length === 0 && value !== undefined ? texts.get(value) : undefined;
    return text === undefined ? [] : [{ name, text }];
  });
  for (const { name, text } of known) {
    const [kind, id, tag] = name.split(" ");
    if (kind === "paused") await use(name, `/sandboxes/${id}/connect`, { text });
    else await use(name, "/sandboxes", { text, templateID: `${id}:${tag}` });
  }
  await use("a new sandbox", "/sandboxes", { templateID: "base" });
  return faults;
}

/** The file that each sandbox of the work has. */
export const MARKER = "/files?path=/home/user/marker.txt";

/** A power cut ends the boot of the machine: what was written in it is of an earlier one. */
async function forgetBoot(home: string): Promise<void> {
  const folder = join(home, "instances/serve/s");
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name, "container.json");
    const text = await readFile(path, "utf8").catch(() => "");
    const earlier = text.replace(/("unsyncedSince":")[^"]+/, "$1earlier");
    if (earlier !== text) await writeFile(path, earlier);
  }
}
