/**
 * Holds the log of a daemon open; when the connection breaks, the daemon has started anew and gets
 * its init request again. Lines are numbered: those that a broken connection lost come again, and
 * those that are gone leave a mark. No more is read than the sandbox's pace allows.
 */

import { anySignal } from "../../common/any-signal.ts";
import { createBackoff } from "../../common/backoff.ts";
import { createByteBuffer } from "../../common/bytes.ts";
import { sleepUnlessWoken } from "../../common/clock.ts";
import { asOperation } from "../../common/operation.ts";
import type { Container } from "../../engine/engine.ts";
import type { InitRequest } from "../../wire/files.ts";
import { DAEMON_ID_HEADER } from "../../wire/headers.ts";
import { initDaemon } from "../boot/boot.ts";
import { callDaemon } from "../boot/daemon-call.ts";
import type { SandboxContext } from "../context.ts";
import type { LogSubject } from "./log-batch.ts";
import type { LogBook } from "./log-book.ts";
import { type LogPace, paceSocket } from "./log-pace.ts";

/** Waits between attempts grow up to this; a sandbox may break its daemon as often as it likes. */
const FIRST_RETRY_MS = 25;
const MAX_RETRY_MS = 2000;

/** The longest line that is kept, as on the wire; of longer ones a mark is. */
const MAX_LINE_BYTES = 192 * 1024;
const NEWLINE = 10;

export interface FollowOptions {
  readonly container: Pick<Container, "dialControl">;
  readonly subject: LogSubject;
  /** What a daemon that started anew is told. */
  init(): InitRequest;
  /** True when the daemon was told already: the first attempt only reads. */
  readonly isInitialized: boolean;
}

export type FollowedDomain = Pick<SandboxContext, "clock" | "log" | "logBook">;

/** Follows until disposed. */
export function followDaemon(context: FollowedDomain, options: FollowOptions): Disposable {
  const { container, subject } = options;
  const end = new AbortController();
  const pace = context.logBook.openPace();

  const state = { isInitialized: options.isInitialized };
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);

  /** Reads until the connection breaks. */
  async function read(signal: AbortSignal): Promise<void> {
    await pace.take({ connections: 1 }, signal);
    if (!state.isInitialized) {
      await initDaemon(container, options.init(), signal);
      context.log.info({ op: "daemon.init", sandboxId: subject.sandboxId }, "daemon told again");
    }
    state.isInitialized = false;
    const socket = await container.dialControl(signal);
    const reader = createLogReader(context.logBook, subject);
    const call = { method: "GET", path: reader.path } as const;
    const reply = await callDaemon(paceSocket(socket, pace, signal), call, signal);
    backoff.reset();
    reader.begin(reply.headers[DAEMON_ID_HEADER]);
    for await (const line of splitLines(reply, pace, signal)) reader.take(line);
  }

  async function follow(): Promise<void> {
    while (!end.signal.aborted) {
      const broken = new AbortController();
      const signal = anySignal([end.signal, broken.signal]);
      try {
        await asOperation("daemon.follow", () => read(signal));
      } catch (error) {
        if (end.signal.aborted) return;
        context.log.debug(
          { op: "daemon.follow", sandboxId: subject.sandboxId, err: error },
          "daemon's log broke",
        );
      } finally {
        // Whatever ended it, its connection ends too.
        broken.abort();
      }
      await sleepUnlessWoken(context.clock, backoff.next(), end.signal);
    }
  }

  // Every fault is caught inside; the signal ends its connection, so disposal need not wait for it.
  void follow();
  return { [Symbol.dispose]: () => end.abort() };
}

/** The lines of a byte stream; undefined in the place of one that is too long to keep. */
async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  pace: LogPace,
  signal: AbortSignal,
): AsyncGenerator<string | undefined> {
  const line = createByteBuffer();
  let isTooLong = false;
  const keep = (bytes: Uint8Array) => {
    isTooLong ||= line.length + bytes.length > MAX_LINE_BYTES;
    if (!isTooLong) line.add(bytes);
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, start)) {
      await pace.take({ lines: 1 }, signal);
      keep(chunk.subarray(start, at));
      const text = line.take().toString("utf8");
      yield isTooLong ? undefined : text;
      isTooLong = false;
      start = at + 1;
    }
    // A piece costs its handling too, however small; of an ordinary reply each has a line.
    if (start === 0) await pace.take({ lines: 1 }, signal);
    keep(chunk.subarray(start));
  }
}

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
/** The number of a line of the daemon, and the line. */
export const LINE_PATTERN = /^([0-9]{1,15}) ([^]*)$/;

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
