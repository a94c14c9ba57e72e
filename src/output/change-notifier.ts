/** Tells observers about changed logs, at a limited rate per resource. */

import type { Clock } from "../common/clock.ts";

const UPDATE_INTERVAL_MS = 1_000;
const LIST_INTERVAL_MS = 500;
/** The key of the list among the addresses of the logs. */
const LIST = "";

/** What is called when logs change. */
export interface LogObserver {
  updated(uri: string): void;
  listChanged(): void;
}

export class ChangeNotifier implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #observers = new Set<LogObserver>();
  readonly #stop = new AbortController();
  readonly #pending = new Map<string, Promise<void>>();
  readonly #notifiedAtMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls the observer at changes until the returned function is called. */
  observe(observer: LogObserver): () => void {
    this.#observers.add(observer);
    return () => void this.#observers.delete(observer);
  }

  updated(uri: string): void {
    this.#notify(uri, UPDATE_INTERVAL_MS, (observer) => observer.updated(uri));
  }

  listChanged(): void {
    this.#notify(LIST, LIST_INTERVAL_MS, (observer) => observer.listChanged());
  }

  /** Drops the record of a log that does not change any more. */
  forget(uri: string): void {
    this.#notifiedAtMs.delete(uri);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#observers.clear();
    await Promise.all(this.#pending.values());
  }

  /** Calls the observers now, or once at the end of the current interval. */
  #notify(key: string, intervalMs: number, call: (observer: LogObserver) => void): void {
    if (this.#pending.has(key) || this.#observers.size === 0) return;
    const last = this.#notifiedAtMs.get(key) ?? Number.NEGATIVE_INFINITY;
    const delayMs = last + intervalMs - this.#clock.elapsed();
    const work = this.#callAfter(delayMs, () => {
      this.#notifiedAtMs.set(key, this.#clock.elapsed());
      for (const observer of this.#observers) call(observer);
    });
    this.#pending.set(key, work);
    void work.finally(() => this.#pending.delete(key));
  }

  async #callAfter(delayMs: number, task: () => void): Promise<void> {
    try {
      await this.#clock.sleep(Math.max(0, delayMs), this.#stop.signal);
    } catch {
      // The server ends: there is no observer left.
      return;
    }
    task();
  }
}
