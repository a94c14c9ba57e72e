/** The numbered lines of one connection to a daemon's log: none twice, and a mark for each gap. */

import type { LogSubject } from "./log-batch.ts";
import type { LogBook } from "./log-book.ts";

export interface LogReader {
  /** What to ask the daemon for: the lines behind those that are in the book. */
  readonly path: string;
  /** The daemon named itself; whatever else it says is not to be trusted either. */
  begin(daemonId: string | string[] | undefined): void;
  /** A line as it came; undefined for one that was too long. */
  take(line: string | undefined): void;
}

const ID_PATTERN = /^[0-9a-f-]{1,64}$/;
const CURSOR_PATTERN = /^([0-9a-f-]{1,64}) ([0-9]{1,15})$/;
const LINE_PATTERN = /^([0-9]{1,15}) ([^]*)$/;

/** A reader that goes on where the book ends. */
export function createLogReader(book: LogBook, subject: LogSubject): LogReader {
  const [, knownId = "", known = "0"] = CURSOR_PATTERN.exec(book.cursor(subject.sandboxId)) ?? [];
  let daemonId = "";
  let last = 0;

  return {
    path: knownId === "" ? "/logs" : `/logs?daemon=${knownId}&after=${known}`,
    begin(id) {
      daemonId = typeof id === "string" && ID_PATTERN.test(id) ? id : "";
      last = daemonId === knownId ? Number(known) : 0;
      if (knownId === "" || daemonId === knownId) return;
      book.mark(subject, "the daemon started anew; its last log lines may be lost");
    },
    take(line) {
      if (line === undefined) {
        last += 1;
        book.mark(subject, "a log line was too long and is lost");
        return;
      }
      const [, text = "", rest = line] = LINE_PATTERN.exec(line) ?? [];
      const number = text === "" ? last : Number(text);
      // A line that came before the connection broke comes again.
      if (text !== "" && number <= last) return;
      const lost = Math.max(0, number - last - 1);
      last = number;
      const cursor = daemonId === "" ? undefined : `${daemonId} ${last}`;
      book.take(subject, rest, { cursor, lost });
    },
  };
}
