/** The body of a reply that carries several parts of one file. */

import { randomBytes } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import type { Part } from "./conditions.ts";

export const READ_BYTES = 262_144;

export interface ByteRanges {
  readonly contentType: string;
  readonly contentLength: number;
  /** Each part with the text that goes before it. */
  readonly parts: readonly { readonly head: string; readonly part: Part }[];
  readonly tail: string;
}

/** Lays out parts of a file of a type and size. */
export function layOutRanges(
  parts: readonly Part[],
  file: { readonly type: string; readonly size: number },
): ByteRanges {
  const boundary = randomBytes(20).toString("hex");
  const laidOut = parts.map((part, index) => ({
    head: [
      `${index === 0 ? "" : "\r\n"}--${boundary}`,
      `Content-Range: bytes ${part.start}-${part.end}/${file.size}`,
      `Content-Type: ${file.type}`,
      "\r\n",
    ].join("\r\n"),
    part,
  }));
  const tail = `\r\n--${boundary}--\r\n`;
  const lengths = laidOut.map(({ head, part }) => head.length + part.end - part.start + 1);
  return {
    contentType: `multipart/byteranges; boundary=${boundary}`,
    contentLength: lengths.reduce((sum, length) => sum + length, tail.length),
    parts: laidOut,
    tail,
  };
}

/**
 * The body as it is read; `onShort` is called, and nothing follows, where the file shrank meanwhile. A
 * stream of Node for each part would leave its listeners on the file and the reply until both end.
 */
export async function* readRanges(
  file: FileHandle,
  { parts, tail }: ByteRanges,
  onShort: () => void,
): AsyncGenerator<Uint8Array> {
  for (const { head, part } of parts) {
    yield Buffer.from(head);
    for (let position = part.start; position <= part.end;) {
      const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, part.end - position + 1));
      const { bytesRead } = await file.read(chunk, 0, chunk.length, position);
      if (bytesRead === 0) {
        onShort();
        return;
      }
      position += bytesRead;
      yield chunk.subarray(0, bytesRead);
    }
  }
  yield Buffer.from(tail);
}
