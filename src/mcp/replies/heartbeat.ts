/** Tells a host that its call goes on, when the call itself has told nothing for a while. */

import { anySignal } from "../../common/any-signal.ts";
import { everyInterval, type Clock } from "../../common/clock.ts";
import type { SendProgress } from "./progress.ts";

export interface HeartbeatOptions {
  /** Absent when the host asked for no progress. */
  readonly send: SendProgress | undefined;
  readonly clock: Clock;
  /** Of the request. */
  readonly signal: AbortSignal;
}

/** Hosts give up on a silent call after half a minute at the earliest. */
const HEARTBEAT_MS = 10_000;
const CHECK_MS = 1_000;

/** The notifications of one call: what it tells itself, and a heartbeat in its silence. */
export interface Heartbeat extends AsyncDisposable {
  /** For what the call tells itself; the numbers that the host gets rise strictly. */
  readonly send: SendProgress | undefined;
}

/** Begins with the call. Disposal comes before the reply, after which nothing is sent. */
export function startHeartbeat({ send, clock, signal }: HeartbeatOptions): Heartbeat {
  if (send === undefined) return { send, [Symbol.asyncDispose]: () => Promise.resolve() };
  const told = send;
  const stop = new AbortController();
  const ended = anySignal([signal, stop.signal]);
  let sentAtMs = clock.elapsed();
  let sentNumber = -1;
  let sending = 0;

  async function tell(number: number, message: string): Promise<void> {
    if (stop.signal.aborted) return;
    sentAtMs = clock.elapsed();
    sentNumber = Math.max(number, sentNumber + 1);
    sending += 1;
    try {
      await told(sentNumber, message);
    } finally {
      sending -= 1;
    }
  }

  async function beat(): Promise<void> {
    for await (const _ of everyInterval(clock, CHECK_MS, ended)) {
      // None while the host has not taken the last one.
      if (sending > 0 || clock.elapsed() - sentAtMs < HEARTBEAT_MS) continue;
      // The host may be gone: the call ends by its own signal.
      void tell(sentNumber + 1, "still running").catch(() => undefined);
    }
  }

  const beating = beat();
  return {
    send: tell,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await beating;
    },
  };
}
