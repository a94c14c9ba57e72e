/** What the kernel has told of one tree and nobody has looked at yet. */

import type { WatchBudget } from "./watch-budget.ts";

export interface RawEvent {
  /** Relative to the root, "" for the root itself. */
  readonly folder: string;
  readonly name: string;
  /** Node's own words: a name came or went, or a file changed. */
  readonly kind: "rename" | "change";
}

/** Raw events in order; they count against the budget until they are settled. */
export class RawEvents {
  readonly #budget: WatchBudget;
  readonly #renames = new Map<string, number>();
  readonly #changes = new Set<string>();
  #events: RawEvent[] = [];
  #unsettled = 0;
  #burst = 0;

  constructor(budget: WatchBudget) {
    this.#budget = budget;
  }

  get length(): number {
    return this.#events.length;
  }

  /** The event that comes next. */
  get first(): RawEvent | undefined {
    return this.#events[0];
  }

  /** @throws SandboxError resource_exhausted when too much waits already. */
  push(event: RawEvent): void {
    const key = keyOf(event);
    // What a change means is read off the file, so one that waits speaks for all.
    if (event.kind === "change" && this.#changes.has(key)) return;
    this.#budget.reserve("raw events");
    this.#unsettled += 1;
    this.#burst += 1;
    if (event.kind === "change") this.#changes.add(key);
    else this.#renames.set(key, (this.#renames.get(key) ?? 0) + 1);
    this.#events.push(event);
  }

  /** Everything that waits, to be settled one by one. */
  takeAll(): readonly RawEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /** Takes note that an event is being handled; tells whether its name has another `rename`. */
  settle(event: RawEvent): boolean {
    const key = keyOf(event);
    if (this.#unsettled > 0) {
      this.#unsettled -= 1;
      this.#budget.release("raw events", 1);
    }
    if (event.kind === "change") {
      this.#changes.delete(key);
      return false;
    }
    const left = (this.#renames.get(key) ?? 1) - 1;
    if (left === 0) this.#renames.delete(key);
    else this.#renames.set(key, left);
    return left > 0;
  }

  /** How many came since the last time this was asked. */
  takeBurst(): number {
    const burst = this.#burst;
    this.#burst = 0;
    return burst;
  }

  /** Drops everything. */
  clear(): void {
    this.#events = [];
    this.#renames.clear();
    this.#changes.clear();
    this.#budget.release("raw events", this.#unsettled);
    this.#unsettled = 0;
  }
}

function keyOf(event: RawEvent): string {
  return `${event.folder}\0${event.name}`;
}
