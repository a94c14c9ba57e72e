/** The home directory: how it is opened, and where the spools and the layers of `base` lie in it. */

import { createHash } from "node:crypto";
import { chmod, readdir } from "node:fs/promises";
import { join } from "node:path";
import { errorText, isCode, SandboxError } from "../common/errors.ts";
import { hasParts } from "../common/files.ts";
import { requireHomeFolder } from "../common/home-folder.ts";
import { makeFolders } from "../common/make-folders.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import type { Config } from "../config.ts";
import type { Layer } from "../engine/engine.ts";
import { DEFAULT_TEAM } from "../store/store.ts";
import { settlePlace } from "./home-place.ts";

/** What lies in the home stays within the 4,096 bytes of a path. */
const MAX_HOME_BYTES = 1024;

/** No name of theirs passes through apt and its kin. */
const REFUSED_CHARACTERS = /[\p{Cc}"]/u;

/**
 * Makes the home or opens it.
 * @throws SandboxError failed_precondition when it cannot be made, its path cannot be used, or it is
 * the folder of something else.
 */
export async function openHome(path: string): Promise<void> {
  checkHome(path);
  try {
    makeFolders(path, 0o700);
    await chmod(path, 0o700);
    await settlePlace(path);
  } catch (error) {
    throw new SandboxError("failed_precondition", `home ${path}: ${errorText(error)}`, {
      cause: error,
      hint: "run as root, or choose another folder with --home",
    });
  }
}

/**
 * Refuses what cannot be a home, before anything in it is changed.
 * @throws SandboxError failed_precondition
 */
export function checkHome(path: string): void {
  checkPath(path);
  requireHomeFolder(path);
}

function checkPath(path: string): void {
  if (Buffer.byteLength(path) > MAX_HOME_BYTES) {
    throw new SandboxError("failed_precondition", "home: the path is too long", {
      hint: `choose one of at most ${MAX_HOME_BYTES} bytes with --home`,
    });
  }
  if (REFUSED_CHARACTERS.test(path)) {
    throw new SandboxError("failed_precondition", `home ${quoteUntrusted(path)} cannot be used`, {
      hint: "choose a path without control characters and quotation marks with --home",
    });
  }
}

const SPOOL = "spool";
const LOCAL = "local";
const SCOPE_CHARACTERS = 16;

/** Of this machine's own service. */
export function localSpoolFolder(home: string, team: string = DEFAULT_TEAM): string {
  return join(home, SPOOL, team === DEFAULT_TEAM ? LOCAL : `team-${team}`);
}

/** Of the service that this configuration names. */
export function spoolFolderOf(config: Config): string {
  return config.engine === "remote" ? remoteSpoolFolder(config) : localSpoolFolder(config.home);
}

/** Of a remote service, apart for each key. */
function remoteSpoolFolder({ home, remote }: Config): string {
  const parts = [remote?.apiUrl ?? "", remote?.domain ?? "", remote?.apiKey ?? ""];
  const hash = createHash("sha256").update(JSON.stringify(parts), "utf8").digest("hex");
  return join(home, SPOOL, `remote-${hash.slice(0, SCOPE_CHARACTERS)}`);
}

/** The folder of all of them. */
export function spoolHome(home: string): string {
  return join(home, SPOOL);
}

/** When it was built, and from which list of packages. */
const NAME_PATTERN = /^base-[0-9]{13}-([0-9a-f]{8})$/;

const DRAFT_PATTERN = /^base-([0-9]{13})-[0-9a-f]{8}\b.*\.part$/;

/** Without one of these the build was not finished, or a part of it was removed. */
export const BASE_PARTS = ["root/etc/passwd", "root/usr/bin", "root/usr/lib"] as const;

/** The newest base template of the home; undefined when it was not built. */
export async function findBase(home: string): Promise<readonly Layer[] | undefined> {
  const newest = await findNewestBase(home);
  return newest === undefined ? undefined : [{ root: join(home, "layers", newest, "root") }];
}

/** The name of the newest build that is complete. */
export async function findNewestBase(home: string): Promise<string | undefined> {
  const names = (await listLayers(home)).filter((name) => NAME_PATTERN.test(name)).toSorted();
  for (const name of names.toReversed()) {
    if (await hasParts(join(home, "layers", name), BASE_PARTS)) return name;
  }
  return undefined;
}

/**
 * The moment in the name of a layer that is built now: the newest one counts, so it is later than that of
 * the newest so far, also when the clock was set back since.
 */
export function newLayerMoment(newest: string | undefined): number {
  const lastMs = Number(/^[a-z]+-([0-9]{13})-/.exec(newest ?? "")?.[1] ?? 0);
  return Math.max(Date.now(), lastMs + 1);
}

/** When the newest build under way began, in Unix milliseconds; undefined where there is none. */
export async function findBuildStart(home: string): Promise<number | undefined> {
  const starts = (await listLayers(home)).flatMap((name) => {
    const startedAt = DRAFT_PATTERN.exec(name)?.[1];
    return startedAt === undefined ? [] : [Number(startedAt)];
  });
  return starts.length === 0 ? undefined : Math.max(...starts);
}

/** Names of all layers of the home. */
export async function listLayers(home: string): Promise<string[]> {
  try {
    return await readdir(join(home, "layers"));
  } catch (error) {
    if (isCode(error, "ENOENT")) return [];
    throw error;
  }
}
