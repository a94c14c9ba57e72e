/** An OCI layout in an archive, as `template export` and other programs write it. */

import { constants, createReadStream } from "node:fs";
import { mkdir, open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { errorText, SandboxError } from "../common/errors.ts";
import { isThere } from "../common/files.ts";
import { removeTree } from "../common/remove-tree.ts";
import { newDraft } from "../engine/host/drafts.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { createByteReader, type ByteReader } from "./byte-reader.ts";
import type { PulledImage, PullOptions } from "./images.ts";
import { layoutFault, readManifest } from "./layout.ts";
import { BLOCK_BYTES, hasValidChecksum } from "./tar-fields.ts";
import { readTar } from "./tar.ts";
import { formOf } from "./unpack.ts";

/** What a layout has; every other entry of the archive is passed over. */
const FILE_PATTERN = /^(?:\.\/)?(oci-layout|index\.json|blobs\/sha256\/[0-9a-f]{64})$/;
const INDEX = "index.json";
const MAX_FILES = 4_096;
const DEFAULT_MAX_BYTES = 8 * 1024 ** 3;
const PIECE_BYTES = 1024 * 1024;
/** A named pipe that nothing writes to is opened at once, and refused. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/** @throws SandboxError not_found, failed_precondition for what is no file, compressed, or no archive */
export async function openArchiveFile(path: string): Promise<FileHandle> {
  const file = await open(path, OPEN_FLAGS).catch((error: unknown) => {
    throw new SandboxError("not_found", `the archive cannot be opened: ${errorText(error)}`, {
      cause: error,
    });
  });
  try {
    if (!(await file.stat()).isFile()) layoutFault(`${path} is no file`);
    const form = await formOf(file);
    if (form === "plain") {
      await requireTar(file, path);
      return file;
    }
    throw new SandboxError("failed_precondition", `the archive is compressed by ${form}`, {
      hint: "decompress it first",
    });
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function requireTar(file: FileHandle, path: string): Promise<void> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(BLOCK_BYTES), 0, BLOCK_BYTES, 0);
  if (bytesRead === BLOCK_BYTES && isHeader(buffer)) return;
  throw new SandboxError("failed_precondition", `${path} is no archive of tar`, {
    hint: "template export writes one, and so does docker save",
  });
}

function isHeader(block: Buffer): boolean {
  try {
    return hasValidChecksum(block);
  } catch {
    return false;
  }
}

/**
 * Unpacks the files of a layout, which have no names of the archive's choice.
 * @throws SandboxError failed_precondition for what is no layout or beyond a bound
 */
export async function openArchive(file: FileHandle, options: PullOptions): Promise<PulledImage> {
  const directory = newDraft(join(options.home, LAYERS, "image-import"));
  const layout = join(directory, "layout");
  const dispose = () => removeTree(directory);
  try {
    await mkdir(join(layout, "blobs/sha256"), { recursive: true, mode: 0o700 });
    await unpackFiles(file, layout, options);
    if (!(await isThere(join(layout, INDEX)))) {
      throw new SandboxError("failed_precondition", `the archive has no ${INDEX}`, {
        hint: "template pull docker-archive:FILE reads what older versions of docker save",
      });
    }
    const { digest } = await readManifest(layout);
    return { layout, digest, pinned: digest, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function unpackFiles(
  source: FileHandle,
  layout: string,
  options: PullOptions,
): Promise<void> {
  const { maxBytes = DEFAULT_MAX_BYTES, signal } = options;
  let bytes = 0;
  let files = 0;
  const stream = createReadStream("", { fd: source, start: 0, autoClose: false });
  const reader = createByteReader(untilCanceled(stream, signal));
  await readTar(reader, async ({ kind, path: name, dataBytes, sparse }) => {
    const target = FILE_PATTERN.exec(name)?.[1];
    if (target === undefined || kind !== "file" || sparse !== undefined) {
      await reader.skip(dataBytes);
      return;
    }
    bytes += dataBytes;
    files += 1;
    if (bytes > maxBytes || files > MAX_FILES) layoutFault("the archive is too large");
    await writeFromReader(join(layout, target), reader, dataBytes);
  });
}

/** An entry has up to 8 GiB, and one that is passed over any size: between two of them is too late. */
async function* untilCanceled(
  stream: AsyncIterable<Buffer>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  for await (const chunk of stream) {
    signal.throwIfAborted();
    yield chunk;
  }
}

/** A second file of the same name is a fault: which of them counts would be a matter of taste. */
async function writeFromReader(path: string, reader: ByteReader, size: number): Promise<void> {
  const file = await open(path, "wx", 0o600).catch((error: unknown) =>
    layoutFault("the archive has a file twice", error),
  );
  try {
    for (let left = size; left > 0;) {
      const piece = await reader.some(Math.min(left, PIECE_BYTES));
      await file.writeFile(piece);
      left -= piece.length;
    }
  } finally {
    await file.close();
  }
}
