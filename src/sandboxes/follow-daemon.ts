/**
 * Holds the daemon's log open; when it breaks, the daemon has started anew and is told again. Lines
 * are numbered: those that a broken connection swallowed come again, and of those that are gone a
 * mark is left. No more is read than the sandbox's pace allows, whoever answers in there.
 */

import { createBackoff } from "../common/backoff.ts";
import { createByteBuffer } from "../common/bytes.ts";
import { asOperation } from "../common/operation.ts";
import type { Container } from "../engine/engine.ts";
import type { InitRequest } from "../wire/files.ts";
import { DAEMON_ID_HEADER } from "../wire/headers.ts";
import { initDaemon } from "./boot.ts";
import { callDaemon } from "./daemon-call.ts";
import type { Domain } from "./domain.ts";
import type { LogSubject } from "./log-batch.ts";
import type { LogPace } from "./log-pace.ts";
import { createLogReader } from "./log-reader.ts";
import { paceSocket } from "./paced-socket.ts";

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

/** What following needs of the domain. */
export type FollowedDomain = Pick<Domain, "clock" | "log" | "logBook">;

/** Follows until disposed. */
export function followDaemon(domain: FollowedDomain, options: FollowOptions): Disposable {
  const { container, subject } = options;
  const end = new AbortController();
  const pace = domain.logBook.openPace();

  const state = { isInitialized: options.isInitialized };
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);

  /** Reads until the connection breaks. */
  async function read(signal: AbortSignal): Promise<void> {
    await pace.take({ connections: 1 }, signal);
    if (!state.isInitialized) {
      await initDaemon(container, options.init(), signal);
      domain.log.info({ op: "daemon.init", sandboxId: subject.sandboxId }, "daemon told again");
    }
    state.isInitialized = false;
    const socket = await container.dialControl(signal);
    const reader = createLogReader(domain.logBook, subject);
    const call = { method: "GET", path: reader.path } as const;
    const reply = await callDaemon(paceSocket(socket, pace, signal), call, signal);
    backoff.reset();
    reader.begin(reply.headers[DAEMON_ID_HEADER]);
    for await (const line of splitLines(reply, pace, signal)) reader.take(line);
  }

  async function follow(): Promise<void> {
    while (!end.signal.aborted) {
      const broken = new AbortController();
      const signal = AbortSignal.any([end.signal, broken.signal]);
      try {
        await asOperation("daemon.follow", () => read(signal));
      } catch (error) {
        if (end.signal.aborted) return;
        domain.log.debug(
          { op: "daemon.follow", sandboxId: subject.sandboxId, err: error },
          "daemon's log broke",
        );
      } finally {
        // Whatever ended it, its connection ends too.
        broken.abort();
      }
      await pause(domain, backoff.next(), end.signal);
    }
  }

  // Every fault is caught inside; nobody waits for it because the signal ends its connection.
  void follow();
  return { [Symbol.dispose]: () => end.abort() };
}

async function pause(domain: FollowedDomain, ms: number, signal: AbortSignal): Promise<void> {
  try {
    await domain.clock.sleep(ms, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
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
