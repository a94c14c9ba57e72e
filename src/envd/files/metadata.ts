/** Metadata of an upload: read from its headers, checked, and stored with each of its files. */

import { statfs } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { isCode, SandboxError } from "../../common/errors.ts";
import type { Attributes, Metadata } from "../attributes.ts";
import { fileErrorText, isDiskFull } from "../errno.ts";

const PREFIX = "x-metadata-";
/** With the prefix under which it is stored, the longest name of an attribute. */
const MAX_KEY_BYTES = 246;
const MAX_TOTAL_BYTES = 4096;
/** The stored prefix counts for every entry. */
const PREFIX_BYTES = 9;

/** @throws SandboxError invalid_argument for keys or values that could not be stored */
export function readMetadata(request: IncomingMessage): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (const [name, values] of Object.entries(request.headersDistinct)) {
    const key = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : "";
    const [value = ""] = values ?? [];
    if (key === "") continue;
    if (key.length > MAX_KEY_BYTES) {
      throw fault(`metadata key "${key}" exceeds ${MAX_KEY_BYTES} bytes`);
    }
    requirePrintable(key, "metadata key");
    requirePrintable(value, `metadata value for key "${key}"`);
    metadata.set(key, value);
  }
  const total = sizeOf(metadata);
  if (total > MAX_TOTAL_BYTES) {
    throw fault(`total metadata size ${total} exceeds ${MAX_TOTAL_BYTES} bytes`);
  }
  return metadata;
}

/** What a file system says that keeps no attributes at all. */
const UNSUPPORTED: ReadonlySet<string> = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/**
 * Replaces the metadata of the file at a place, which is told as `path`, and returns what it has then: none on a file system that keeps
 * none.
 * @throws SandboxError resource_exhausted for a full disk, invalid_argument for more than the file
 * system keeps with one file, internal
 */
export async function storeMetadata(
  attributes: Attributes,
  { place, path }: { readonly place: string; readonly path: string },
  metadata: ReadonlyMap<string, string>,
): Promise<Metadata> {
  try {
    return await attributes.replace(place, metadata);
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    if (isCode(error, ...UNSUPPORTED)) return {};
    const reason = fileErrorText("setxattr", path, error);
    if (isDiskFull(error) && (await hasSpace(place))) {
      const bound = `fewer than ${MAX_TOTAL_BYTES} bytes fit into the attributes of ${path}`;
      throw fault(
        `total metadata size ${sizeOf(metadata)} exceeds what its file system keeps: ${bound}`,
      );
    }
    if (isDiskFull(error)) {
      const message = `not enough space for file metadata: ${reason}`;
      throw new SandboxError("resource_exhausted", message, { cause: error });
    }
    const message = `error writing file metadata: ${reason}`;
    throw new SandboxError("internal", message, { cause: error });
  }
}

function sizeOf(metadata: ReadonlyMap<string, string>): number {
  return [...metadata].reduce(
    (sum, [key, value]) => sum + PREFIX_BYTES + key.length + value.length,
    0,
  );
}

/** Whether a disk has space: a file system such as ext4 has a block for all attributes of a file. */
async function hasSpace(place: string): Promise<boolean> {
  const { bavail, ffree } = await statfs(place);
  return bavail > 0 && ffree > 0;
}

function requirePrintable(text: string, subject: string): void {
  const offset = text.search(/[^\x20-\x7e]/);
  if (offset === -1) return;
  const hex = text.charCodeAt(offset).toString(16).padStart(2, "0");
  throw fault(`${subject} contains non-printable-ASCII byte 0x${hex} at offset ${offset}`);
}

function fault(reason: string): SandboxError {
  return new SandboxError("invalid_argument", `invalid metadata: ${reason}`);
}
