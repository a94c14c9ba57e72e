/**
 * Holds the daemon's log open; when it breaks, the daemon has started anew and is told again. Lines
 * are numbered: those that a broken connection swallowed come again, and of those that are gone a
 * mark is left. No more is read than the sandbox's pace allows, whoever answers in there.
 */

import { createByteBuffer } from "../common/bytes.ts";
import { errorText } from "../common/errors.ts";
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

  async function follow(): Promise<void> {
    let retryMs = FIRST_RETRY_MS;
    let isInitialized = options.isInitialized;
    while (!end.signal.aborted) {
      try {
        await pace.take({ connections: 1 }, end.signal);
        if (!isInitialized) {
          await initDaemon(container, options.init(), end.signal);
          domain.log.info({ op: "daemon.init", sandboxId: subject.sandboxId }, "daemon told again");
        }
        isInitialized = false;
        const socket = await container.dialControl(end.signal);
        const reader = createLogReader(domain.logBook, subject);
        const call = { method: "GET", path: reader.path } as const;
        const paced = paceSocket(socket, pace, end.signal);
        const reply = await callDaemon(paced, call, end.signal);
        retryMs = FIRST_RETRY_MS;
        reader.begin(reply.headers[DAEMON_ID_HEADER]);
        for await (const line of splitLines(reply, pace, end.signal)) reader.take(line);
      } catch (error) {
        if (end.signal.aborted) return;
        domain.log.debug(
          { op: "daemon.follow", sandboxId: subject.sandboxId, reason: errorText(error) },
          "daemon's log broke",
        );
      }
      await pause(domain, retryMs, end.signal);
      retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
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
