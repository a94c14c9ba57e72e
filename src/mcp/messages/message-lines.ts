/** JSON-RPC messages as lines of a byte stream, with a limit for each line. */

import { createByteBuffer } from "../../common/bytes.ts";
import { createIdFinder, type IdFinder, type MessageId } from "./message-id.ts";

export interface LineEvents {
  /** A line without its line feed. */
  line(bytes: Buffer): void;
  /** A line above the limit has ended; its content was discarded. */
  tooLong(id: MessageId | undefined): void;
}

/** A splitter of lines; it holds at most one line of `maxBytes`. */
export function createLineReader(maxBytes: number, events: LineEvents): (chunk: Buffer) => void {
  const buffer = createByteBuffer();
  /** Set while the rest of a line above the limit is skipped. */
  let skipped: IdFinder | undefined;

  function add(part: Buffer): void {
    if (skipped === undefined && buffer.length + part.length <= maxBytes) {
      buffer.add(part);
      return;
    }
    if (skipped === undefined) {
      skipped = createIdFinder();
      skipped.add(buffer.take());
    }
    skipped.add(part);
  }

  function endLine(): void {
    if (skipped === undefined) {
      events.line(buffer.take());
      return;
    }
    const { id } = skipped;
    skipped = undefined;
    events.tooLong(id);
  }

  return (chunk) => {
    let start = 0;
    for (;;) {
      const newline = chunk.indexOf(NEWLINE, start);
      add(chunk.subarray(start, newline === -1 ? chunk.length : newline));
      if (newline === -1) return;
      endLine();
      start = newline + 1;
    }
  };
}

const NEWLINE = 0x0a;
