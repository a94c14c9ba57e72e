/** The contents of an image's files, each in a file of its own until the tree is known. */

import { mkdir, open, writeFile, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { writeAt } from "../common/files.ts";
import type { ByteReader } from "./byte-reader.ts";
import type { TarEntry } from "./tar.ts";

const PIECE_BYTES = 1024 * 1024;
const ZEROS = Buffer.alloc(PIECE_BYTES);
/** What is read of a file of the image to decide something. */
export const MAX_TEXT_BYTES = 1024 * 1024;

export interface Contents {
  readonly directory: string;
  /** Bytes of all files with their holes. */
  readonly bytes: number;
  /** Reads the data of an entry; returns the number of the content. */
  receive(
    entry: Pick<TarEntry, "size" | "sparse" | "dataBytes">,
    reader: ByteReader,
  ): Promise<number>;
  /** Content of our own. */
  add(data: Uint8Array | string): Promise<number>;
  /** At most 1 MiB, each byte as one character; undefined for longer ones. */
  read(content: number): Promise<string | undefined>;
  /** The first bytes. */
  head(content: number, size: number): Promise<Buffer>;
}

/** @throws SandboxError failed_precondition by `receive`, beyond the bound */
export async function createContents(directory: string, maxBytes: number): Promise<Contents> {
  await mkdir(directory, { mode: 0o700 });
  let count = 0;
  let bytes = 0;
  const pathOf = (content: number) => join(directory, String(content));

  return {
    directory,
    get bytes() {
      return bytes;
    },
    async receive({ size, sparse, dataBytes }, reader) {
      bytes += size;
      if (bytes > maxBytes) {
        throw new SandboxError("failed_precondition", `the image has more than ${maxBytes} bytes`);
      }
      const content = count;
      count += 1;
      const file = await open(pathOf(content), "wx", 0o600);
      try {
        // Before the data: what is not written stays a hole.
        await file.truncate(size);
        for (const { offset, size: part } of sparse?.extents ?? [{ offset: 0, size: dataBytes }]) {
          for (let done = 0; done < part;) {
            const piece = await reader.some(Math.min(part - done, PIECE_BYTES));
            await writeData(file, piece, offset + done);
            done += piece.length;
          }
        }
      } finally {
        await file.close();
      }
      return content;
    },
    async add(data) {
      const content = count;
      count += 1;
      await writeFile(pathOf(content), data, { flag: "wx", mode: 0o600 });
      return content;
    },
    async read(content) {
      const file = await open(pathOf(content), "r");
      try {
        return (await file.stat()).size > MAX_TEXT_BYTES
          ? undefined
          : await file.readFile("latin1");
      } finally {
        await file.close();
      }
    },
    async head(content, size) {
      const file = await open(pathOf(content), "r");
      try {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(size), 0, size, 0);
        return buffer.subarray(0, bytesRead);
      } finally {
        await file.close();
      }
    },
  };
}

/** Leaves out zeros: a layer of an image has the holes of sparse files as zeros. */
async function writeData(file: FileHandle, piece: Buffer, position: number): Promise<void> {
  if (piece.equals(ZEROS.subarray(0, piece.length))) return;
  await writeAt(file, piece, position);
}
