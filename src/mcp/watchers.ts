/** Watchers that this server made in sandboxes, and their undelivered events. */

import type { Sandbox } from "../client/envd.ts";
import type { WatchEvent } from "../client/filesystem.ts";
import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";

/** A watcher in a sandbox, and its fetched but undelivered events. */
export interface Watcher {
  readonly id: string;
  readonly sandbox: Sandbox;
  readonly held: WatchEvent[];
  /** Whether undelivered events were dropped. */
  hasLost: boolean;
  /** Whether the directory itself was moved or removed, after which the daemon reports nothing. */
  isOver: boolean;
  /** A fetch removes the events from the daemon, so one call polls at a time. */
  isPolling: boolean;
  polledAtMs: number;
}

/** Watchers of one server; the daemon has no limit. */
const MAX_WATCHERS = 64;
/** A watcher that was not polled for this time is removed; the daemon removes none. */
const IDLE_MS = 10 * 60_000;
const SWEEP_MS = 30_000;
const MAX_HELD_EVENTS = 10_000;
/** How often a waiting call fetches events. */
const POLL_MS = 250;
const FETCH_TIMEOUT_MS = 10_000;
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
    this.#requireSlot();
    const { path, isRecursive, user } = target;
    const id = await sandbox.filesystem.createWatcher(path, isRecursive, { signal, user });
    return this.#add(sandbox, id);
  }

  /** Takes over a watcher that another server made, if it exists. */
  adopt(sandbox: Sandbox, id: string): Watcher {
    this.#requireSlot();
    return this.#add(sandbox, id);
  }

  #requireSlot(): void {
    if (this.#table.size < MAX_WATCHERS) return;
    const message = `${MAX_WATCHERS} watchers exist, the limit`;
    throw new SandboxError("resource_exhausted", message, { hint: "End one with close=true." });
  }

  #add(sandbox: Sandbox, id: string): Watcher {
    const polledAtMs = this.#options.clock.now();
    const state = { hasLost: false, isOver: false, isPolling: false };
    const watcher = { id, sandbox, held: [], ...state, polledAtMs };
    this.#table.set(keyOf(sandbox.id, id), watcher);
    return watcher;
  }

  /**
   * Waits until the watcher holds an event or the time is over.
   * @throws SandboxError not_found when the daemon does not know the watcher.
   */
  async poll(watcher: Watcher, waitMs: number, signal: AbortSignal): Promise<void> {
    if (watcher.isPolling) {
      throw new SandboxError("failed_precondition", `another call waits on ${watcher.id}`);
    }
    watcher.isPolling = true;
    try {
      await this.#poll(watcher, waitMs, signal);
    } catch (error) {
      const isUnknown = error instanceof SandboxError && error.code === "not_found";
      if (isUnknown) this.#table.delete(keyOf(watcher.sandbox.id, watcher.id));
      throw error;
    } finally {
      watcher.isPolling = false;
      watcher.polledAtMs = this.#options.clock.now();
    }
  }

  /** Ends a watch. */
  async remove(watcher: Watcher, signal: AbortSignal): Promise<void> {
    this.#table.delete(keyOf(watcher.sandbox.id, watcher.id));
    await watcher.sandbox.filesystem.removeWatcher(watcher.id, signal);
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
  }

  async #poll(watcher: Watcher, waitMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const deadline = clock.now() + waitMs;
    for (;;) {
      // The fetch outlives the call: fetched events must reach the next call.
      const fetching = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(FETCH_TIMEOUT_MS)]);
      hold(watcher, await watcher.sandbox.filesystem.takeWatcherEvents(watcher.id, fetching));
      const restMs = deadline - clock.now();
      if (watcher.held.length > 0 || restMs <= 0 || signal.aborted) return;
      await clock.sleep(Math.min(POLL_MS, restMs), signal);
    }
  }

  async #sweep(): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      try {
        await clock.sleep(SWEEP_MS, this.#stop.signal);
      } catch {
        // The server ends.
        return;
      }
      const idle = [...this.#table.values()].filter(
        ({ isPolling, polledAtMs }) => !isPolling && clock.now() - polledAtMs > IDLE_MS,
      );
      await Promise.all(idle.map((watcher) => this.#discard(watcher)));
    }
  }

  async #discard(watcher: Watcher): Promise<void> {
    try {
      await this.remove(watcher, AbortSignal.timeout(REMOVE_TIMEOUT_MS));
    } catch (error) {
      // Its sandbox may be gone, and the watcher with it.
      this.#options.log.debug({ op: "watcher.remove", err: error });
    }
  }
}

function keyOf(sandboxId: string, watcherId: string): string {
  return `${sandboxId}/${watcherId}`;
}

const ENDS: ReadonlySet<WatchEvent["type"]> = new Set(["rename", "remove"]);

function hold(watcher: Watcher, events: readonly WatchEvent[]): void {
  watcher.held.push(...events);
  watcher.isOver ||= events.some(({ name, type }) => name === "." && ENDS.has(type));
  const surplus = watcher.held.length - MAX_HELD_EVENTS;
  if (surplus <= 0) return;
  watcher.held.splice(0, surplus);
  watcher.hasLost = true;
}
