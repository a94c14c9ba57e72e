/** Ends the stream of a process whose peer is silent for longer than it may be. */

import { anySignal } from "../common/any-signal.ts";
import type { Clock } from "../common/clock.ts";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { signalAfter } from "../common/late-signal.ts";

/** Interval of the daemon's keepalives, so that no proxy ends a silent stream. */
export const KEEPALIVE_S = 50;
/** Two keepalives may be late or lost. */
const MAX_SILENCE_MS = 3 * KEEPALIVE_S * 1_000;
/** Servers give up after 70 seconds by contract. */
const MAX_START_MS = 75_000;
/** By which the daemon should have ended the stream of a process at its time limit. */
const GRACE_MS = 10_000;
/** Nothing comes after the end of a process but that of its stream. */
const AFTER_END_MS = 1_000;
const CHECK_MS = 5_000;
/** A sandbox that is found running twice, so far apart, was silent in between without a reason. */
const CONFIRM_MS = 2 * KEEPALIVE_S * 1_000;
const ASK_TIMEOUT_MS = 10_000;

export interface GuardOptions {
  readonly clock: Clock;
  /** The operation, as the beginning of an error message. */
  readonly subject: string;
  /** Whether the peer is known to send keepalives; otherwise its first one shows it. */
  readonly hasKeepalives: boolean;
  /** By which the daemon ends the process; undefined: never. */
  readonly timeoutMs: number | undefined;
  /** Whether the sandbox runs: a paused one sends nothing, and loses nothing. */
  isRunning(signal: AbortSignal): Promise<boolean>;
}

export class StreamGuard implements Disposable {
  readonly #options: GuardOptions;
  readonly #call = new AbortController();
  readonly #stop = new AbortController();
  readonly #openedAtMs: number;
  /** Whether the peer ended the stream. */
  isOver = false;
  /** When the reader began to wait for a message; undefined while it works on one. */
  #waitsSinceMs: number | undefined;
  #hasStarted = false;
  #hasEnded = false;
  #hasKeepalives: boolean;
  /** Since when the sandbox is known to run in spite of its silence. */
  #runsSinceMs: number | undefined;
  /** Before this it is not asked for again. */
  #asksAtMs = 0;
  #fault: SandboxError | undefined;

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#hasKeepalives = options.hasKeepalives;
    this.#openedAtMs = options.clock.elapsed();
    void this.#watch();
  }

  /** Ends the call. */
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  /** Why the guard ended the stream; undefined while it did not. */
  get fault(): SandboxError | undefined {
    return this.#fault;
  }

  /** The reader waits for the next message: a slow reader is no silent peer. */
  waits(): void {
    this.#waitsSinceMs = this.#options.clock.elapsed();
  }

  /** A message has come. */
  took(kind: string | undefined): void {
    this.#waitsSinceMs = undefined;
    this.#runsSinceMs = undefined;
    this.#asksAtMs = 0;
    if (kind === "start") this.#hasStarted = true;
    else if (kind === "keepalive") this.#hasKeepalives = true;
    else if (kind === "end") this.#ends();
  }

  /** Ends the call of a stream that is not over, since leaving the iteration does not. */
  [Symbol.dispose](): void {
    this.#stop.abort();
    if (!this.isOver) this.#call.abort();
  }

  /** A peer may tell the end again and again: one timer serves for all. */
  #ends(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    void this.#endAfter(AFTER_END_MS);
  }

  async #endAfter(ms: number): Promise<void> {
    if (await this.#slept(ms)) this.#call.abort();
  }

  async #watch(): Promise<void> {
    while (this.#fault === undefined && (await this.#slept(CHECK_MS))) {
      this.#fault = this.#hasStarted
        ? await this.#confirm(this.#findFault())
        : this.#findLateStart();
    }
    if (this.#fault !== undefined) this.#call.abort();
  }

  /** Whatever else came by then: a peer that sends keepalives alone would hold its caller for ever. */
  #findLateStart(): SandboxError | undefined {
    const { clock, subject } = this.#options;
    if (clock.elapsed() - this.#openedAtMs <= MAX_START_MS) return undefined;
    return new SandboxError("deadline_exceeded", `${subject}: no reply`);
  }

  /** The fault, once the sandbox is known to have run all the while. */
  async #confirm(fault: SandboxError | undefined): Promise<SandboxError | undefined> {
    const { clock } = this.#options;
    if (fault === undefined || clock.elapsed() < this.#asksAtMs) return undefined;
    const runs = await this.#isRunning();
    // A message that came meanwhile is the better answer.
    if (this.#findFault() === undefined) return undefined;
    const nowMs = clock.elapsed();
    if (runs && this.#runsSinceMs !== undefined) return fault;
    this.#runsSinceMs = runs ? nowMs : undefined;
    this.#asksAtMs = nowMs + CONFIRM_MS;
    return undefined;
  }

  /** True also for a sandbox that is gone: its stream has nothing more to tell. */
  async #isRunning(): Promise<boolean> {
    const limit = signalAfter(ASK_TIMEOUT_MS);
    try {
      return await this.#options.isRunning(anySignal([this.#stop.signal, limit]));
    } catch (error) {
      return hasErrorCode(error, "not_found");
    }
  }

  #findFault(): SandboxError | undefined {
    const { clock, subject, timeoutMs } = this.#options;
    const nowMs = clock.elapsed();
    const silentMs = nowMs - (this.#waitsSinceMs ?? nowMs);
    if (this.#hasKeepalives && silentMs > MAX_SILENCE_MS) {
      const seconds = MAX_SILENCE_MS / 1_000;
      return new SandboxError("unavailable", `${subject}: no keepalive for ${seconds} s`);
    }
    // That the process was killed is not known without the daemon's word.
    if (timeoutMs === undefined || nowMs - this.#openedAtMs <= timeoutMs + GRACE_MS) {
      return undefined;
    }
    return new SandboxError("unavailable", `${subject}: the time limit passed without an end`);
  }

  /** Whether the time passed before the guard was stopped. */
  async #slept(ms: number): Promise<boolean> {
    try {
      await this.#options.clock.sleep(ms, this.#stop.signal);
      return true;
    } catch {
      return false;
    }
  }
}
