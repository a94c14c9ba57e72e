/**
 * The spools of a home: the output of processes on the disk, which outlives a call, a connection
 * and the server. Only the owner of a spool writes it; every server of the same user reads it, and
 * takes it over when the owner is dead.
 */

import { randomBytes } from "node:crypto";
import { mkdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isCode } from "../common/errors.ts";
import { ifThere } from "../common/files.ts";
import type { Logger } from "../common/log.ts";
import type { SpoolClock } from "./ages.ts";
import { createCollector } from "./collector.ts";
import {
  createSurvey,
  END_FILE,
  LATE_FILE,
  listFolder,
  listSandboxes,
  listSpools,
  locationOf,
  readEnding,
  readLayout,
  segmentName,
  type SpoolLocation,
} from "./folders.ts";
import { isLeased, startLease } from "./lease.ts";
import { createQuota, MAX_HOME_BYTES, MAX_SANDBOX_BYTES, type QuotaLimits } from "./quota.ts";
import { measureSpool, type Extent } from "./reader.ts";
import type { SpoolFile, SpoolLimits, WriterFilesOptions } from "./writer-files.ts";
import { SpoolWriter } from "./writer.ts";

const OWNER_BYTES = 8;

export interface FoundSpool {
  readonly place: SpoolLocation;
  /** How it ended, as its owner wrote it; undefined when it has not. */
  readonly ending: Readonly<Record<string, unknown>> | undefined;
  /** Whether its owner lives. */
  readonly isLive: boolean;
  /** Whether this server owns it. */
  readonly isOwn: boolean;
  /** Whether its first owner came late: what the process wrote before is not in it. */
  readonly isLate: boolean;
}

/** A spool that was taken over, and what it held. */
export interface TakenSpool {
  readonly writer: SpoolWriter;
  readonly extent: Extent;
}

export interface SpoolsOptions {
  /** Made when it is needed; undefined: nothing is kept on the disk. */
  readonly root: string | undefined;
  readonly clock: SpoolClock;
  readonly log: Logger;
  readonly limits?: QuotaLimits;
}

export interface Spools extends AsyncDisposable {
  /** A new spool; undefined where nothing is kept on the disk. */
  create(spool: NewSpool, limits: SpoolLimits): SpoolWriter | undefined;
  /** The newest spool of a name, one that is written before one that ended; undefined when there is none. */
  find(key: SpoolKey): Promise<FoundSpool | undefined>;
  /** Every spool of a name, the oldest first: servers that run at once have one each. */
  findAll(key: SpoolKey): Promise<readonly FoundSpool[]>;
  /**
   * Continues a spool that ended, whose owner is dead, or that this server has closed; undefined
   * when another server was first.
   */
  takeOver(place: SpoolLocation, limits: SpoolLimits): Promise<TakenSpool | undefined>;
}

export interface SpoolKey {
  readonly sandboxId: string;
  /** `p_<pid>` or `log`. */
  readonly name: string;
}

export interface NewSpool extends SpoolKey {
  /** As in `FoundSpool`. */
  readonly isLate?: boolean;
}

const DEFAULT_LIMITS = { sandboxBytes: MAX_SANDBOX_BYTES, homeBytes: MAX_HOME_BYTES };

/** Nothing is made or read before the first spool is created. */
export function startSpools(options: SpoolsOptions): Spools {
  return options.root === undefined ? NO_SPOOLS : startSpoolsIn(options.root, options);
}

function startSpoolsIn(root: string, options: SpoolsOptions): Spools {
  const { clock, log, limits = DEFAULT_LIMITS } = options;
  let ownerId: string | undefined;
  const owner = (): string => (ownerId ??= randomBytes(OWNER_BYTES).toString("hex"));
  const survey = createSurvey(root);
  const touch = () => touchUnended(root, owner(), clock.now());
  const collector = createCollector({ root, clock, log, survey, touch });

  async function openRoot(): Promise<AsyncDisposable> {
    await mkdir(root, { recursive: true, mode: 0o700 });
    const held = await startLease(root, owner());
    collector.start();
    return held;
  }

  const lease = createOpening(openRoot, log);

  async function makeFolder({ folder }: SpoolLocation): Promise<void> {
    await lease.require();
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }

  const shared = { makeFolder, ...createQuota(root, survey, limits) };

  const inspect = (place: SpoolLocation) => inspectSpool(root, place, place.owner === owner());

  return {
    create({ sandboxId, name, isLate = false }, spoolLimits) {
      const place = locationOf(root, sandboxId, { name, createdAtMs: clock.now(), owner: owner() });
      const files = { place, limits: spoolLimits, ...shared };
      return new SpoolWriter(isLate ? markedLate(files) : files);
    },
    async find(key) {
      const found = await Promise.all((await placesOf(root, key)).map(inspect));
      const [newest] = found;
      if (newest?.ending === undefined) return newest;
      // After a clock was set back, one that ended may have a later time than one that runs.
      return found.find(({ isLive }) => isLive) ?? newest;
    },
    async findAll(key) {
      const places = await placesOf(root, key);
      return Promise.all(places.toReversed().map(inspect));
    },
    async takeOver(place, spoolLimits) {
      await lease.require();
      // Also its own spool gets another name: a server that is late finds nothing to rename.
      const createdAtMs = place.createdAtMs + (place.owner === owner() ? 1 : 0);
      const mine = locationOf(root, place.sandboxId, { ...place, createdAtMs, owner: owner() });
      if (!(await claim(place, mine))) return undefined;
      const extent = await measureSpool(mine.folder);
      const files = await claimFiles(mine.folder, extent.end);
      const taken = { place: mine, limits: spoolLimits, extent, files, ...shared };
      return { writer: new SpoolWriter(taken), extent };
    },
    async [Symbol.asyncDispose]() {
      // Looks begin with the lease.
      const held = await lease.current();
      await collector.end();
      if (held !== undefined) await release(held, touch, log);
    },
  };
}

/** Nothing is written without a lease, which shows that the owner lives. */
function createOpening(open: () => Promise<AsyncDisposable>, log: Logger) {
  let opening: Promise<AsyncDisposable> | undefined;
  let hasWarned = false;
  return {
    async require(): Promise<void> {
      opening ??= open().catch((error: unknown) => {
        // A disk that is full now is not full for ever: the next spool tries it again.
        opening = undefined;
        if (!hasWarned) log.warn({ op: "spool.open", err: error }, "output is kept in memory only");
        hasWarned = true;
        throw error;
      });
      await opening;
    },
    current: async () => opening?.catch(() => undefined),
  };
}

/**
 * Marks the spools of an owner that have not ended as in use at this time, in Unix milliseconds: a spool
 * whose process is silent is not older than the death of its owner, which nothing else records.
 */
async function touchUnended(root: string, owner: string, atMs: number): Promise<void> {
  const time = new Date(atMs);
  for (const sandboxId of await listSandboxes(root)) {
    for (const place of await listSpools(root, sandboxId)) {
      if (place.owner !== owner) continue;
      if ((await listFolder(place.folder)).includes(END_FILE)) continue;
      await ifThere(utimes(place.folder, time, time));
    }
  }
}

/** Ends a lease; the spools that have not ended count from now on. */
async function release(
  lease: AsyncDisposable,
  touch: () => Promise<void>,
  log: Logger,
): Promise<void> {
  try {
    await touch();
  } catch (error) {
    log.debug({ op: "spool.touch", err: error }, "spools look older than they are");
  }
  await lease[Symbol.asyncDispose]();
}

/** The same writer, whose folder says that output from before the spool is missing. */
function markedLate(options: WriterFilesOptions): WriterFilesOptions {
  return {
    ...options,
    async makeFolder(place) {
      await options.makeFolder(place);
      await writeFile(join(place.folder, LATE_FILE), "", { mode: 0o600 });
    },
  };
}

/**
 * Gives a spool another owner; of several servers that try, the rename of one succeeds. No folder of the
 * new name has an end: a survey that saw one would take the spool for ended from then on.
 */
async function claim(place: SpoolLocation, mine: SpoolLocation): Promise<boolean> {
  await rm(join(place.folder, END_FILE), { force: true });
  try {
    await rename(place.folder, mine.folder);
  } catch (error) {
    if (isCode(error, ...CLAIMED_CODES)) return false;
    throw error;
  }
  return true;
}

/** Gone, or another spool has the name. */
const CLAIMED_CODES: ReadonlySet<string> = new Set(["ENOENT", "ENOTEMPTY", "EEXIST"]);

/** The newest first. */
async function placesOf(root: string, { sandboxId, name }: SpoolKey): Promise<SpoolLocation[]> {
  return (await listSpools(root, sandboxId)).filter((other) => other.name === name);
}

async function inspectSpool(
  root: string,
  place: SpoolLocation,
  isOwn: boolean,
): Promise<FoundSpool> {
  const ending = await readEnding(place);
  const isLate = (await listFolder(place.folder)).includes(LATE_FILE);
  if (ending !== undefined) return { place, ending, isLive: false, isOwn, isLate };
  const isLive = isOwn || (await isLeased(root, place.owner));
  // It can have ended between the two reads.
  return { place, ending: isLive ? undefined : await readEnding(place), isLive, isOwn, isLate };
}

/**
 * The files of a spool that is taken over, without those that a killed server left empty: the next
 * file has the position of such a file, and its name.
 */
async function claimFiles(folder: string, end: number): Promise<SpoolFile[]> {
  const { starts } = await readLayout(folder);
  const files: SpoolFile[] = [];
  for (const start of starts) {
    const path = join(folder, segmentName(start));
    if (start >= end) await rm(path, { force: true });
    else files.push({ start, bytes: (await stat(path)).size });
  }
  return files;
}

const NO_SPOOLS: Spools = {
  create: () => undefined,
  find: async () => undefined,
  findAll: async () => [],
  takeOver: async () => undefined,
  [Symbol.asyncDispose]: async () => undefined,
};
