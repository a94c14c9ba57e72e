/** A queue with one reader that can wait, give up waiting, be ended and be failed. */

import type { SandboxError } from "../common/errors.ts";

/** What a reader got: an item, the news that none came in time, or the end. */
export type QueueItem<T> =
  | { readonly kind: "item"; readonly value: T }
  | { readonly kind: "idle" }
  | { readonly kind: "end" };

interface Item<T> {
  readonly value: T;
  readonly bytes: number;
}

/** Items already taken are cut off the front in pieces of this many. */
const COMPACT_AT = 1024;

/** Items wait in order; how many are too many is for the owner to say, who sees their size. */
export class EventQueue<T> {
  readonly #onTake: () => void;
  #items: Item<T>[] = [];
  #head = 0;
  #bytes = 0;
  #hasEnded = false;
  #failure: SandboxError | undefined;
  #wake: (() => void) | undefined;

  /** `onTake` runs after the reader took an item, or all of them. */
  constructor(onTake: () => void = () => undefined) {
    this.#onTake = onTake;
  }

  /** The sum of the sizes of what waits. */
  get bytes(): number {
    return this.#bytes;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(value: T, bytes: number): void {
    if (this.#hasEnded || this.#failure !== undefined) return;
    this.#items.push({ value, bytes });
    this.#bytes += bytes;
    this.#wake?.();
  }

  /** No more items; the reader gets what waits, then the end. */
  end(): void {
    this.#hasEnded = true;
    this.#wake?.();
  }

  /** Drops what waits; the reader gets this error, now and from then on. */
  fail(error: SandboxError): void {
    this.#failure ??= error;
    this.#items = [];
    this.#head = 0;
    this.#bytes = 0;
    this.#wake?.();
  }

  /** The next item, `idle` after `waitMs` without one; rejects with the signal's reason. */
  async take(waitMs: number, signal: AbortSignal): Promise<QueueItem<T>> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#failure !== undefined) throw this.#failure;
      const item = this.#shift();
      if (item !== undefined) {
        this.#onTake();
        return { kind: "item", value: item.value };
      }
      if (this.#hasEnded) return { kind: "end" };
      if (!(await this.#changed(waitMs, signal))) return { kind: "idle" };
    }
  }

  /** What waits, up to about `maxBytes` and at least one item, without waiting for more. */
  drain(maxBytes: number): T[] {
    if (this.#failure !== undefined) throw this.#failure;
    const values: T[] = [];
    let size = 0;
    while (size < maxBytes) {
      const item = this.#shift();
      if (item === undefined) break;
      values.push(item.value);
      size += item.bytes;
    }
    this.#onTake();
    return values;
  }

  #shift(): Item<T> | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#head += 1;
    this.#bytes -= item.bytes;
    if (this.#head >= COMPACT_AT || this.#head === this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Resolves to true at the next change, to false when time is up. */
  async #changed(waitMs: number, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), waitMs);
    const onAbort = () => resolve(true);
    this.#wake = () => resolve(true);
    signal.addEventListener("abort", onAbort);
    const isChanged = await promise;
    this.#wake = undefined;
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    return isChanged;
  }
}
