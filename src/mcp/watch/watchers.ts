/** Watchers that this server made in sandboxes, and their undelivered events. */

import type { Sandbox } from "../../client/envd.ts";
import { anySignal } from "../../common/any-signal.ts";
import { everyInterval, type Clock } from "../../common/clock.ts";
import { hasErrorCode, SandboxError, type ErrorCode } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { Logger } from "../../common/log.ts";
import { orCanceled, throwIfCanceled } from "../../common/or-canceled.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { holdEvents, MAX_REPLY_EVENTS, newWatcher, type Watcher } from "./watcher.ts";

/** Watchers of one server; the daemon has no limit. */
const MAX_WATCHERS = 64;
/** A watcher that was not used for this time is removed; the daemon removes none. */
const IDLE_MS = 10 * 60_000;
const SWEEP_MS = 30_000;
/** Identifiers that a refusal names. */
const MAX_TOLD = 3;
/** How often a waiting call fetches events. */
const POLL_MS = 250;
const FETCH_TIMEOUT_MS = 10_000;
/** A call waits for the end of its watcher; the sweep and the server's end do not wait for long. */
const END_TIMEOUT_MS = 5_000;
const REMOVE_TIMEOUT_MS = 1_000;

export interface WatchersOptions {
  readonly clock: Clock;
  readonly log: Logger;
}

/** The watchers that this server made. */
export class Watchers implements AsyncDisposable {
  readonly #options: WatchersOptions;
  readonly #table = new Map<string, Watcher>();
  readonly #stop = new AbortController();
  readonly #sweeping: Promise<void>;
  readonly #work = new Set<Promise<void>>();
  /** Watchers that are being made. */
  #creating = 0;

  constructor(options: WatchersOptions) {
    this.#options = options;
    this.#sweeping = this.#sweep();
  }

  find(sandboxId: string, watcherId: string): Watcher | undefined {
    return this.#table.get(keyOf(sandboxId, watcherId));
  }

  /**
   * Starts a watch in a sandbox.
   * @throws SandboxError what the daemon refused, resource_exhausted for too many.
   */
  async create(
    sandbox: Sandbox,
    target: {
      readonly path: string;
      readonly isRecursive: boolean;
      readonly user: string | undefined;
    },
    signal: AbortSignal,
  ): Promise<Watcher> {
    this.#requireSlot(sandbox.id);
    const { path, isRecursive, user } = target;
    const options = { signal: this.#stop.signal, user };
    const creating = sandbox.filesystem.createWatcher(path, isRecursive, options);
    this.#creating += 1;
    try {
      return this.#add(sandbox, await orCanceled(creating, signal), true);
    } catch (error) {
      if (signal.aborted) this.#track(this.#removeUnnamed(sandbox, creating));
      throw error;
    } finally {
      this.#creating -= 1;
    }
  }

  /** Takes over a watcher that another server made, if it exists. */
  adopt(sandbox: Sandbox, id: string): Watcher {
    this.#requireSlot(sandbox.id);
    return this.#add(sandbox, id, false);
  }

  #requireSlot(sandboxId: string): void {
    if (this.#table.size + this.#creating < MAX_WATCHERS) return;
    const message = `${MAX_WATCHERS} watchers exist, the limit`;
    // Their identifiers may be lost to the caller.
    const idle = [...this.#table.values()]
      .filter(({ sandbox, isInUse }) => sandbox.id === sandboxId && !isInUse)
      .toSorted((left, right) => left.usedAtMs - right.usedAtMs)
      .slice(0, MAX_TOLD)
      .map(({ id }) => quoteName(id));
    const ids = idle.length === 0 ? "" : ` and watcher_id, longest unused ${idle.join(", ")}`;
    const minutes = IDLE_MS / 60_000;
    const hint = `End one with close=true${ids}; each ends after ${minutes} minutes without a call.`;
    throw new SandboxError("resource_exhausted", message, { hint });
  }

  #add(sandbox: Sandbox, id: string, isKnown: boolean): Watcher {
    const usedAtMs = this.#options.clock.elapsed();
    const watcher = newWatcher({ id, sandbox, isKnown, usedAtMs });
    this.#table.set(keyOf(sandbox.id, id), watcher);
    return watcher;
  }

  /**
   * Does the work of one call with a watcher, beside which no other call uses it.
   * @throws SandboxError failed_precondition while another call does.
   */
  async use<T>(watcher: Watcher, work: () => Promise<T>): Promise<T> {
    if (watcher.isInUse) {
      const hint = "Wait for the reply of that call, or cancel it; no change is lost meanwhile.";
      const message = `another call waits on watcher ${watcher.id}`;
      throw new SandboxError("failed_precondition", message, { hint });
    }
    watcher.isInUse = true;
    try {
      return await work();
    } finally {
      watcher.isInUse = false;
      watcher.usedAtMs = this.#options.clock.elapsed();
    }
  }

  /**
   * Waits until the watcher holds an event or the deadline fires. Events stay held until they are
   * taken from it.
   * @throws SandboxError not_found when the daemon does not know the watcher, canceled.
   */
  async poll(watcher: Watcher, deadline: AbortSignal, signal: AbortSignal): Promise<void> {
    await this.#poll(watcher, deadline, signal);
    // A cancelled call has no reply: what it would tell is left to the next one.
    throwIfCanceled(signal);
  }

  /**
   * Ends a watch; what it holds stays until it is dropped.
   * @throws SandboxError why it was not ended. It then ends as one that is not used.
   */
  async end(watcher: Watcher): Promise<void> {
    if (watcher.isEnded) return;
    const limits = [this.#stop.signal, signalAfter(END_TIMEOUT_MS)];
    try {
      await watcher.sandbox.filesystem.removeWatcher(watcher.id, anySignal(limits));
    } catch (error) {
      if (!hasErrorCode(error, "not_found")) throw error;
    }
    watcher.isEnded = true;
  }

  /** Forgets a watcher that has ended and holds nothing. */
  forgetEnded(watcher: Watcher): void {
    if (watcher.isEnded && watcher.held.length === 0) this.#drop(watcher);
  }

  /** Removes a watcher whose caller will not learn its id. */
  abandon(watcher: Watcher): void {
    this.#track(this.#discard(watcher));
  }

  /** Drops the watchers of a sandbox that is gone. */
  forget(sandboxId: string): void {
    for (const [key, { sandbox }] of this.#table) {
      if (sandbox.id === sandboxId) this.#table.delete(key);
    }
  }

  /** Removes every watcher that is left. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#sweeping;
    await Promise.all([...this.#table.values()].map((watcher) => this.#discard(watcher)));
    await Promise.all(this.#work);
  }

  #track(work: Promise<void>): void {
    this.#work.add(work);
    void work.finally(() => this.#work.delete(work));
  }

  async #poll(watcher: Watcher, deadline: AbortSignal, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      if (!watcher.isEnded && watcher.held.length < MAX_REPLY_EVENTS) {
        await this.#fetchFor(watcher, signal);
      }
      const hasEnd = watcher.isOver || watcher.isEnded || deadline.aborted;
      if (watcher.held.length > 0 || hasEnd) return;
      // An abort is told by the caller.
      await clock.sleep(POLL_MS, deadline).catch(() => undefined);
      throwIfCanceled(signal);
    }
  }

  /** Fetches; what was fetched before is told before a failure, which the next call meets again. */
  async #fetchFor(watcher: Watcher, signal: AbortSignal): Promise<void> {
    try {
      await orCanceled(this.#fetch(watcher), signal);
    } catch (error) {
      if (watcher.held.length === 0) throw error;
    }
  }

  /** One fetch at a time, which outlives the call: the daemon has no second copy of the events. */
  #fetch(watcher: Watcher): Promise<void> {
    if (watcher.fetching !== undefined) return watcher.fetching;
    const fetching = this.#take(watcher).finally(() => {
      watcher.fetching = undefined;
    });
    // A call that was cancelled does not look at its failure.
    fetching.catch(() => undefined);
    watcher.fetching = fetching;
    return fetching;
  }

  async #take(watcher: Watcher): Promise<void> {
    const late = anySignal([this.#stop.signal, signalAfter(FETCH_TIMEOUT_MS)]);
    try {
      holdEvents(watcher, await watcher.sandbox.filesystem.takeWatcherEvents(watcher.id, late));
      watcher.isKnown = true;
    } catch (error) {
      // The daemon may have given its events away in a reply that did not arrive.
      watcher.hasLost ||= error instanceof SandboxError && WITHOUT_REPLY.has(error.code);
      const isUnknown = hasErrorCode(error, "not_found");
      if (watcher.held.length === 0 && (isUnknown || !watcher.isKnown)) this.#drop(watcher);
      throw error;
    }
  }

  async #sweep(): Promise<void> {
    const { clock } = this.#options;
    for await (const _ of everyInterval(clock, SWEEP_MS, this.#stop.signal)) {
      const idle = [...this.#table.values()].filter(
        ({ isInUse, usedAtMs }) => !isInUse && clock.elapsed() - usedAtMs > IDLE_MS,
      );
      await Promise.all(idle.map((watcher) => this.#discard(watcher)));
    }
  }

  async #discard(watcher: Watcher): Promise<void> {
    this.#drop(watcher);
    if (!watcher.isEnded) await this.#remove(watcher.sandbox, watcher.id);
  }

  /** Removes a watcher that a cancelled call made, once its id is known. */
  async #removeUnnamed(sandbox: Sandbox, creating: Promise<string>): Promise<void> {
    const id = await creating.catch(() => undefined);
    if (id !== undefined) await this.#remove(sandbox, id);
  }

  async #remove({ filesystem }: Sandbox, id: string): Promise<void> {
    try {
      await filesystem.removeWatcher(id, signalAfter(REMOVE_TIMEOUT_MS));
    } catch (error) {
      // Its sandbox may be gone, and the watcher with it.
      this.#options.log.debug({ op: "watcher.remove", err: error });
    }
  }

  /** Another watcher may have the key, after the sandbox was forgotten. */
  #drop(watcher: Watcher): void {
    const key = keyOf(watcher.sandbox.id, watcher.id);
    if (this.#table.get(key) === watcher) this.#table.delete(key);
  }
}

/** Codes of a fetch whose reply was lost on its way, or could not be read. */
const WITHOUT_REPLY: ReadonlySet<ErrorCode> = new Set([
  "unavailable",
  "deadline_exceeded",
  "canceled",
  "resource_exhausted",
]);

function keyOf(sandboxId: string, watcherId: string): string {
  return `${sandboxId}/${watcherId}`;
}
