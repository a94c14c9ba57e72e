/** Metadata of an upload: read from its headers, checked, and stored with each of its files. */

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
  let total = 0;
  for (const [name, values] of Object.entries(request.headersDistinct)) {
    const key = name.startsWith(PREFIX) ? name.slice(PREFIX.length) : "";
    const [value = ""] = values ?? [];
    if (key === "") continue;
    if (key.length > MAX_KEY_BYTES) {
      throw fault(`metadata key "${key}" exceeds ${MAX_KEY_BYTES} bytes`);
    }
    requirePrintable(key, "metadata key");
    requirePrintable(value, `metadata value for key "${key}"`);
    total += PREFIX_BYTES + key.length + value.length;
    metadata.set(key, value);
  }
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
 * @throws SandboxError resource_exhausted for a full disk, internal
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
    if (isDiskFull(error)) {
      const message = `not enough space for file metadata: ${reason}`;
      throw new SandboxError("resource_exhausted", message, { cause: error });
    }
    const message = `error writing file metadata: ${reason}`;
    throw new SandboxError("internal", message, { cause: error });
  }
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
