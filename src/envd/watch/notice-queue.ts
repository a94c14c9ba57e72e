/** What the kernel has told a watch and the watch has not applied yet. */

import type { Notice } from "./inotify.ts";
import type { WatchBudget } from "./watch-budget.ts";

/** Notices in order, for one reader; events count against the budget while they wait. */
export class NoticeQueue {
  readonly #budget: WatchBudget;
  #notices: Notice[] = [];
  #wake: (() => void) | undefined;
  #isClosed = false;

  constructor(budget: WatchBudget) {
    this.#budget = budget;
  }

  get isEmpty(): boolean {
    return this.#notices.length === 0;
  }

  /** @throws SandboxError resource_exhausted */
  push(notice: Notice): void {
    if (this.#isClosed) return;
    if (notice.kind === "event") this.#budget.reserve("events");
    this.#notices.push(notice);
    this.#wakeReader();
  }

  /** Everything that waits. */
  take(): readonly Notice[] {
    const notices = this.#notices;
    this.#notices = [];
    this.#budget.release("events", countEvents(notices));
    return notices;
  }

  /** Everything that waits if it is events alone. */
  takeEvents() {
    if (countEvents(this.#notices) < this.#notices.length) return [];
    return this.take().flatMap((notice) => (notice.kind === "event" ? [notice.event] : []));
  }

  /** Puts what was taken, and not used, before everything that waits. */
  putBack(notices: readonly Notice[]): void {
    this.#notices = [...notices, ...this.#notices];
    this.#budget.release("events", -countEvents(notices));
  }

  /** Resolves when something waits, or with the end. */
  async arrival(): Promise<void> {
    if (this.#notices.length > 0 || this.#isClosed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    await promise;
  }

  close(): void {
    this.#isClosed = true;
    this.take();
    this.#wakeReader();
  }

  #wakeReader(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

function countEvents(notices: readonly Notice[]): number {
  return notices.filter(({ kind }) => kind === "event").length;
}
