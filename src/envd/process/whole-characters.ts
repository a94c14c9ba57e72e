/**
 * Output in pieces that do not end inside a UTF-8 character. Old clients decode each piece by
 * itself, and some of them end the call at half a character.
 */

import { isUtf8 } from "node:buffer";
import { incompleteTail, isContinuation } from "../../common/characters.ts";
import { releaseBuffer } from "./release-buffer.ts";

export interface WholeCharacters {
  /** The bytes are the caller's again afterwards. */
  add(bytes: Buffer): void;
  /** Gives what is left, however incomplete. */
  flush(): void;
}

/** So long the begin of a character waits for its rest; other bytes never wait. */
const WAIT_MS = 50;
const NOTHING = Buffer.alloc(0);

/** Nothing is lost: a begin whose rest does not come soon is given by itself. */
export function createWholeCharacters(give: (bytes: Buffer) => void): WholeCharacters {
  let begun = NOTHING;
  let timer: NodeJS.Timeout | undefined;
  let last: NodeJS.Immediate | undefined;

  function stopWaiting(): void {
    clearTimeout(timer);
    clearImmediate(last);
  }

  function flush(): void {
    stopWaiting();
    const rest = begun;
    begun = NOTHING;
    if (rest.length > 0) give(rest);
  }

  return {
    add(bytes) {
      stopWaiting();
      const all = begun.length === 0 ? bytes : Buffer.concat([begun, bytes]);
      const end = textEnd(all);
      begun = Buffer.from(all.subarray(end));
      // After a halt of the daemon itself, what has come meanwhile is read first.
      if (begun.length > 0) timer = setTimeout(() => (last = setImmediate(flush)), WAIT_MS);
      if (end > 0) give(all.subarray(0, end));
      if (all !== bytes) releaseBuffer(all);
    },
    flush,
  };
}

/** Where the begin of a character stands at the end of a text; what is no text is not held up. */
function textEnd(bytes: Buffer): number {
  const end = bytes.length - incompleteTail(bytes);
  // The rest of a character whose begin has gone already.
  let start = 0;
  while (start < end && start < 3 && isContinuation(bytes[start])) start += 1;
  return end === bytes.length || isUtf8(bytes.subarray(start, end)) ? end : bytes.length;
}
