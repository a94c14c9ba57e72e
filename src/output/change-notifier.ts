/** Tells observers about changed logs, at a limited rate per resource. */

import type { Clock } from "../common/clock.ts";

const UPDATE_INTERVAL_MS = 1_000;
const LIST_INTERVAL_MS = 500;
/** The key of the list among the addresses of the logs. */
const LIST = "";

export interface LogObserver {
  updated(uri: string): void;
  listChanged(): void;
}

/** A log whose observers were called within its interval. */
interface Recent {
  /** Whether it changed since. */
  hasChanged: boolean;
}

export class ChangeNotifier implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #observers = new Set<LogObserver>();
  readonly #stop = new AbortController();
  /** Only for as long as their intervals last: logs come and go without an end. */
  readonly #recent = new Map<string, Recent>();
  readonly #work = new Set<Promise<void>>();

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

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#observers.clear();
    await Promise.all(this.#work);
  }

  /** Calls the observers now, or once at the end of the current interval. */
  #notify(key: string, intervalMs: number, call: (observer: LogObserver) => void): void {
    const recent = this.#recent.get(key);
    if (recent !== undefined) recent.hasChanged = true;
    if (recent !== undefined || this.#observers.size === 0) return;
    const work = this.#serve(key, intervalMs, call);
    this.#work.add(work);
    void work.finally(() => this.#work.delete(work));
  }

  async #serve(
    key: string,
    intervalMs: number,
    call: (observer: LogObserver) => void,
  ): Promise<void> {
    const recent = { hasChanged: true };
    this.#recent.set(key, recent);
    try {
      await this.#clock.sleep(0, this.#stop.signal);
      while (recent.hasChanged) {
        recent.hasChanged = false;
        for (const observer of this.#observers) call(observer);
        await this.#clock.sleep(intervalMs, this.#stop.signal);
      }
    } catch {
      // The server ends: there is no observer left.
    }
    this.#recent.delete(key);
  }
}
