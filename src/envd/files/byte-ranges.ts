/** The body of a reply that carries several parts of one file. */

import { randomBytes } from "node:crypto";
import type { Part } from "./conditions.ts";

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
