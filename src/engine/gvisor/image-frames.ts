/**
 * The stream of an image: what was written to its files, in that order. A frame is its kind, the
 * number of the file, an offset, a length and so many bytes; `launcher-images.pl` makes them.
 */

import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { writeAt } from "../../common/files.ts";

const HEAD_BYTES = 17;
const MAX_FRAME_BYTES = 1024 * 1024;
const MAX_FILES = 16;
const NAME_PATTERN = /^[a-z0-9][\w.-]{0,63}$/i;
const FILE_MODE = 0o600;

interface Frame {
  readonly kind: string;
  readonly index: number;
  readonly offset: number;
  readonly body: Buffer;
}

/**
 * Makes the files of an image in a folder.
 * @throws SandboxError internal for what is no such stream, or one without its end.
 */
export async function writeFrames(stream: AsyncIterable<Buffer>, folder: string): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const files: FileHandle[] = [];
  let hasEnded = false;
  for await (const { kind, index, offset, body } of readFrames(stream)) {
    const file = files[index];
    if (hasEnded) throw damaged();
    if (kind === "E") hasEnded = true;
    else if (kind === "F") {
      const name = body.toString("latin1");
      if (files.length === MAX_FILES || !NAME_PATTERN.test(name)) throw damaged();
      files.push(stack.use(await open(join(folder, name), "wx", FILE_MODE)));
    } else if (file === undefined) throw damaged();
    else if (kind === "W") await writeAt(file, body, offset);
    else if (kind === "T") await file.truncate(offset);
    else throw damaged();
  }
  if (!hasEnded) throw damaged();
}

async function* readFrames(stream: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  let kept: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    kept = kept.length === 0 ? chunk : Buffer.concat([kept, chunk]);
    for (;;) {
      const frame = parseFrame(kept);
      if (frame === undefined) break;
      kept = kept.subarray(HEAD_BYTES + frame.body.length);
      yield frame;
    }
  }
  if (kept.length > 0) throw damaged();
}

/** Undefined where a part of it is missing. */
function parseFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < HEAD_BYTES) return undefined;
  const length = bytes.readUInt32LE(13);
  if (length > MAX_FRAME_BYTES) throw damaged();
  const end = HEAD_BYTES + length;
  if (bytes.length < end) return undefined;
  return {
    kind: String.fromCharCode(bytes[0] ?? 0),
    index: bytes.readUInt32LE(1),
    offset: Number(bytes.readBigUInt64LE(5)),
    body: bytes.subarray(HEAD_BYTES, end),
  };
}

function damaged(): SandboxError {
  return new SandboxError("internal", "an image is no stream of frames");
}
