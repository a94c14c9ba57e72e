/** What the wire says about one file, folder or link. */

import type { BigIntStats } from "node:fs";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { TimestampSchema, type Timestamp } from "@bufbuild/protobuf/wkt";
import { causeCode } from "../../common/errors.ts";
import { toWirePath } from "../../common/file-names.ts";
import { FileType, type EntryInfoSchema } from "../../gen/filesystem/filesystem_pb.ts";
import type { Attributes } from "../attributes.ts";
import { lstatExactly, realpath, statExactly } from "../file-system.ts";
import { baseName } from "../path.ts";
import { permissionBits, permissionsText } from "../permissions.ts";
import type { AccountReader, Accounts } from "../user.ts";

export type Entry = MessageInitShape<typeof EntryInfoSchema>;

const NANOS_PER_SECOND = 1_000_000_000n;
/** The years 1 to 9999, which the wire can tell; programs may set any other time of a file. */
const MIN_SECONDS = -62_135_596_800n;
const MAX_SECONDS = 253_402_300_799n;

/**
 * The entry at a path. Owner, size and time are those of a link itself, type and mode those of
 * what it leads to; a link that leads nowhere has neither.
 * @throws the system's error when nothing is there.
 */
export async function readEntry(path: string, accounts: Accounts): Promise<Entry> {
  const stats = await lstatExactly(path);
  const uid = Number(stats.uid);
  const gid = Number(stats.gid);
  return {
    name: toWirePath(baseName(path)),
    path: toWirePath(path),
    size: stats.size,
    permissions: permissionsText(Number(stats.mode)),
    owner: accounts.userNames.get(uid) ?? String(uid),
    group: accounts.groupNames.get(gid) ?? String(gid),
    modifiedTime: toTimestamp(stats.mtimeNs),
    ...(stats.isSymbolicLink() ? await linkFields(path) : plainFields(stats)),
  };
}

/** Where entries are read from. */
export interface EntrySource {
  readonly accounts: AccountReader;
  readonly attributes: Attributes;
}

/** The entry at a path with its metadata. @throws what readEntry and Attributes.read throw */
export async function describeEntry(path: string, source: EntrySource): Promise<Entry> {
  const metadata = source.attributes.read([path]);
  // Awaited below, unless the entry itself is not there: then that is what is told.
  metadata.catch(() => undefined);
  const entry = await readEntry(path, await source.accounts.read());
  return { ...entry, metadata: (await metadata)[0] ?? {} };
}

function plainFields(stats: BigIntStats): Entry {
  return { type: typeOf(stats), mode: permissionBits(Number(stats.mode)) };
}

async function linkFields(path: string): Promise<Entry> {
  try {
    const [target, stats] = await Promise.all([realpath(path), statExactly(path)]);
    return { ...plainFields(stats), symlinkTarget: toWirePath(target), isSymlink: true };
  } catch (error) {
    if (causeCode(error) === undefined) throw error;
    // Broken and cyclic links are entries too; their target is told as the link itself.
    const symlinkTarget = toWirePath(path);
    return { type: FileType.UNSPECIFIED, mode: 0, symlinkTarget, isSymlink: true };
  }
}

function typeOf(stats: BigIntStats): FileType {
  if (stats.isFile()) return FileType.FILE;
  return stats.isDirectory() ? FileType.DIRECTORY : FileType.UNSPECIFIED;
}

function toTimestamp(nanoseconds: bigint): Timestamp {
  // Times before 1970 are negative; the fraction is always counted forwards.
  const nanos = ((nanoseconds % NANOS_PER_SECOND) + NANOS_PER_SECOND) % NANOS_PER_SECOND;
  const seconds = (nanoseconds - nanos) / NANOS_PER_SECOND;
  if (seconds < MIN_SECONDS) return create(TimestampSchema, { seconds: MIN_SECONDS });
  if (seconds > MAX_SECONDS) return create(TimestampSchema, { seconds: MAX_SECONDS });
  return create(TimestampSchema, { seconds, nanos: Number(nanos) });
}
