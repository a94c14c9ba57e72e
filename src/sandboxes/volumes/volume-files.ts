/** The content of a volume, for clients outside of sandboxes that have its token. */

import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import {
  chmod,
  lchown,
  lstat,
  mkdir,
  open,
  rename,
  unlink,
  type FileHandle,
} from "node:fs/promises";
import { isCode, SandboxError } from "../../common/errors.ts";
import { ifThere, syncFolder } from "../../common/files.ts";
import { readPrivilege, storedId } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { UUID_PATTERN } from "../../wire/address.ts";
import { MESSAGES } from "../../wire/messages.ts";
import { equalSecrets } from "../../wire/signature.ts";
import type { Folders, Services } from "../context.ts";
import { takeWhileSpaceLeft } from "../disks/disk-space.ts";
import { listVolumeFolder } from "./list-volume.ts";
import { VOLUME_OWNER_ID } from "./volume-disks.ts";
import { toEntry, toOpenEntry, type VolumeEntry } from "./volume-entry.ts";
import { toVolumeFault } from "./volume-faults.ts";
import { findPlace, openFolderIn, pathIn, type Place, type Walk } from "./volume-paths.ts";
import { openVolumePlace, type OpenFile, type VolumePlace } from "./volume-place.ts";

const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;
/** So many bytes are written between two looks at the free space of the disk. */
const SPACE_STEP_BYTES = 64 * 1024 ** 2;
const DRAFT_BYTES = 8;

/** Never waits for the other end of a pipe, never takes a terminal. */
const READ_FLAGS =
  constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY | constants.O_NOFOLLOW;

export interface EntryChange {
  readonly uid?: number | undefined;
  readonly gid?: number | undefined;
  readonly mode?: number | undefined;
}

/** Of what is made: `makesParents` also makes the folders above it. */
export interface NewEntry extends EntryChange {
  readonly makesParents: boolean;
}

/** Every call throws SandboxError: invalid_argument, not_found, already_exists, resource_exhausted. */
export interface VolumeFiles {
  readonly team: string;
  stat(path: string): Promise<VolumeEntry>;
  /** Depth first, without the folder itself. */
  list(path: string, depth: number): Promise<VolumeEntry[]>;
  makeFolder(path: string, entry: NewEntry): Promise<VolumeEntry>;
  change(path: string, change: EntryChange): Promise<VolumeEntry>;
  /** With everything below it. */
  remove(path: string): Promise<void>;
  read(path: string): Promise<OpenFile & AsyncDisposable>;
  /** The file is seen when it is complete, and durable; a client that leaves changes nothing. */
  write(path: string, content: AsyncIterable<Buffer>, entry: NewEntry): Promise<VolumeEntry>;
}

/**
 * The content that a token opens.
 * @throws SandboxError unauthenticated for the token of another volume, not_found for a removed one
 */
export function openVolume(
  context: Services & Folders,
  volumeId: string,
  token: string,
): VolumeFiles {
  const isGiven = UUID_PATTERN.test(volumeId);
  if (!isGiven || !equalSecrets(token, context.secrets.volumeToken(volumeId))) {
    throw new SandboxError("unauthenticated", "invalid volume token");
  }
  const volume = context.store.volumes.get(volumeId);
  if (volume === undefined) throw new SandboxError("not_found", MESSAGES.volumeMissing);
  return createVolumeFiles(openVolumePlace(context, volume), volume.team);
}

function createVolumeFiles(volume: VolumePlace, team: string): VolumeFiles {
  const root = volume.root;
  return {
    team,
    stat: (path) => volume.during(() => at({ root, path, followsLast: false }, toEntry)),
    list: (path, depth) =>
      volume.during(() =>
        at({ root, path, followsLast: true }, async (place) => {
          await requireType(place, "directory");
          return listVolumeFolder(place, depth);
        }),
      ),
    makeFolder: (path, entry) => volume.during(() => makeFolder(root, path, entry)),
    change: (path, change) =>
      volume.during(() =>
        at({ root, path, followsLast: true }, async (place) => {
          const { type } = await toEntry(place);
          // A link that came since would be followed by `chmod`: the folder and the file are opened first.
          await using file = await open(place.systemPath, kindFlags(type));
          await applyToFile(file, change);
          await file.sync();
          return await toOpenEntry(place, file);
        }),
      ),
    remove: (path) =>
      volume.during(() =>
        at({ root, path, followsLast: false }, async (place) => {
          if (place.name === "") {
            throw new SandboxError("invalid_argument", "the top of a volume cannot be removed");
          }
          await lstat(place.systemPath);
          await removeTree(place.systemPath);
          // Without it, what was removed may be there again after a power cut.
          await syncFolder(pathIn(place.folder, "."));
        }),
      ),
    read: (path) => volume.untilClosed(() => at({ root, path, followsLast: true }, openFile)),
    write: (path, content, entry) =>
      volume.during(() => writeFile({ volume, path, entry }, content)),
  };
}

/** A path in a volume, and how it is followed. */
interface Wanted extends Walk {
  readonly root: string;
  readonly path: string;
}

async function at<T>(wanted: Wanted, work: (place: Place) => Promise<T>): Promise<T> {
  const { root, path, ...walk } = wanted;
  try {
    await using place = await findPlace(root, path, walk);
    return await work(place);
  } catch (error) {
    throw toVolumeFault(error);
  }
}

async function requireType(place: Place, type: "file" | "directory"): Promise<void> {
  const entry = await toEntry(place);
  if (entry.type === type) return;
  const wanted = type === "file" ? "regular file" : type;
  throw new SandboxError("invalid_argument", `path is not a ${wanted}`);
}

/** @throws SandboxError invalid_argument for what is neither. */
function kindFlags(type: VolumeEntry["type"]): number {
  if (type === "directory") return READ_FLAGS | constants.O_DIRECTORY;
  if (type === "file") return READ_FLAGS;
  throw new SandboxError("invalid_argument", "path is neither a regular file nor a directory");
}

/** The mode comes last: a new owner takes set-user-id bits away. */
async function applyToFile(file: FileHandle, { uid, gid, mode }: EntryChange): Promise<void> {
  if (mayChown() && (uid !== undefined || gid !== undefined)) {
    const before = await file.stat();
    await file.chown(
      uid === undefined ? before.uid : storedId(uid),
      gid === undefined ? before.gid : storedId(gid),
    );
  }
  if (mode !== undefined) await file.chmod(mode);
}

/** Without the right to give files away there is no engine that maps their owners either. */
function mayChown(): boolean {
  return readPrivilege() !== "none";
}

async function makeFolder(root: string, path: string, entry: NewEntry): Promise<VolumeEntry> {
  if (entry.makesParents) await makeParents(root, path);
  return at({ root, path, followsLast: true }, async (place) => {
    try {
      await makeOwned(place.folder, place.name);
    } catch (error) {
      const isThere = isCode(error, "EEXIST");
      if (!isThere || !entry.makesParents) throw error;
      await requireType(place, "directory");
    }
    await using folder = await open(place.systemPath, kindFlags("directory"));
    await applyToFile(folder, entry);
    await folder.sync();
    return await toOpenEntry(place, folder);
  });
}

/** Makes the folders above a path that are missing. */
async function makeParents(root: string, path: string): Promise<void> {
  await at({ root, path, followsLast: false, makeMissing }, async () => undefined);
}

/** One that appears meanwhile is as good. */
async function makeMissing(folder: FileHandle, name: string): Promise<void> {
  await makeOwned(folder, name).catch((error: unknown) => {
    if (!isCode(error, "EEXIST")) throw error;
  });
}

async function makeOwned(folder: FileHandle, name: string): Promise<void> {
  await mkdir(pathIn(folder, name === "" ? "." : name), { mode: FOLDER_MODE });
  await using made = await openFolderIn(folder, name);
  const owner = storedId(VOLUME_OWNER_ID);
  if (mayChown()) await lchown(pathIn(made, "."), owner, owner);
  await chmod(pathIn(made, "."), FOLDER_MODE);
  await syncFolder(pathIn(folder, "."));
}

async function openFile(place: Place) {
  await requireType(place, "file");
  const file = await open(place.systemPath, READ_FLAGS);
  const stats = await file.stat();
  if (stats.isFile()) return { file, sizeBytes: stats.size };
  await file.close();
  throw new SandboxError("invalid_argument", "path is not a regular file");
}

interface Upload {
  readonly volume: VolumePlace;
  readonly path: string;
  readonly entry: NewEntry;
}

async function writeFile(
  { volume, path, entry }: Upload,
  content: AsyncIterable<Buffer>,
): Promise<VolumeEntry> {
  const { root } = volume;
  if (entry.makesParents) await makeParents(root, path);
  // What cannot be written is refused before its content is read.
  await at({ root, path, followsLast: true }, findReplaced);
  const draft = volume.draftOf(randomBytes(DRAFT_BYTES).toString("hex"));
  let isDraft = true;
  try {
    await fillDraft(draft, content, volume);
    return await at({ root, path, followsLast: true }, async (place) => {
      const replaced = await findReplaced(place);
      const owner = { uid: VOLUME_OWNER_ID, gid: VOLUME_OWNER_ID, mode: FILE_MODE, ...replaced };
      const { uid = owner.uid, gid = owner.gid, mode = owner.mode } = entry;
      await using file = await open(draft, READ_FLAGS);
      await applyToFile(file, { uid, gid, mode });
      // Without it, the name may outlive a power cut and the bytes may not.
      await file.sync();
      await rename(draft, place.systemPath);
      isDraft = false;
      await syncFolder(pathIn(place.folder, "."));
      return await toOpenEntry(place, file);
    });
  } catch (error) {
    throw toVolumeFault(error);
  } finally {
    if (isDraft) await unlink(draft).catch(() => undefined);
  }
}

/** Owner and mode of the file that is about to be replaced; undefined for a new one. */
async function findReplaced(place: Place): Promise<Required<EntryChange> | undefined> {
  if (place.name === "") throw new SandboxError("invalid_argument", "path is a directory");
  const entry = await ifThere(toEntry(place));
  if (entry === undefined) return undefined;
  if (entry.type !== "file") {
    const kind = entry.type === "unknown" ? "special file" : entry.type;
    throw new SandboxError("invalid_argument", `path is a ${kind}, not a regular file`);
  }
  const { uid, gid, mode } = entry;
  return { uid, gid, mode };
}

async function fillDraft(
  draft: string,
  content: AsyncIterable<Buffer>,
  volume: VolumePlace,
): Promise<void> {
  await using file = await open(draft, "wx", 0o600);
  const chunks = takeWhileSpaceLeft(content, SPACE_STEP_BYTES, () => volume.requireSpace());
  for await (const chunk of chunks) await file.writeFile(chunk);
}
