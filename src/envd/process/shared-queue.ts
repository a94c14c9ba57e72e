/** A queue that many readers share: what is in it is there once, however many it waits for. */

/** Where one reader stands. */
export interface Place {
  /** The number of the item that comes next. */
  readonly next: number;
  /** The size of all that waits for this reader. */
  readonly bytes: number;
}

interface Item<T> {
  readonly value: T;
  readonly bytes: number;
  /** How many readers have not taken it yet. */
  readers: number;
}

type MutablePlace = { -readonly [Name in keyof Place]: Place[Name] };

/** Empty slots at the front are cut off in pieces of this many. */
const COMPACT_AT = 64;

/** Items in order; each is kept until the last of the readers that were there has taken it. */
export class SharedQueue<T> {
  readonly #places = new Set<MutablePlace>();
  /** An item that no reader needs leaves its slot at once; slots go later. */
  #items: (Item<T> | undefined)[] = [];
  /** How many slots at the front are empty, and how many were cut off before. */
  #done = 0;
  #gone = 0;
  #bytes = 0;

  /** The size of all that waits for a reader. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A place behind everything that is in the queue. */
  join(): Place {
    const place: MutablePlace = { next: this.#gone + this.#items.length, bytes: 0 };
    this.#places.add(place);
    return place;
  }

  /** Adds an item for all who have a place; without any it is dropped. */
  push(value: T, bytes: number): void {
    if (this.#places.size === 0) return;
    this.#items.push({ value, bytes, readers: this.#places.size });
    this.#bytes += bytes;
    for (const place of this.#places) place.bytes += bytes;
  }

  /** What comes next for a reader, until `maxBytes` are reached or nothing more waits. */
  take(place: Place, maxBytes: number): T[] {
    const own = this.#own(place);
    if (own === undefined) return [];
    const values: T[] = [];
    let size = 0;
    while (size < maxBytes) {
      const item = this.#items[own.next - this.#gone];
      if (item === undefined) break;
      values.push(item.value);
      size += item.bytes;
      this.#pass(own, item);
    }
    this.#compact();
    return values;
  }

  /** Gives up a place and all that waits for it alone; a second time it does nothing. */
  leave(place: Place): void {
    const own = this.#own(place);
    if (own === undefined) return;
    for (;;) {
      const item = this.#items[own.next - this.#gone];
      if (item === undefined) break;
      this.#pass(own, item);
    }
    this.#places.delete(own);
    this.#compact();
  }

  #own(place: Place): MutablePlace | undefined {
    return this.#places.has(place) ? place : undefined;
  }

  #pass(place: MutablePlace, item: Item<T>): void {
    place.next += 1;
    place.bytes -= item.bytes;
    item.readers -= 1;
  }

  #compact(): void {
    for (;;) {
      const item = this.#items[this.#done];
      if (item === undefined || item.readers > 0) break;
      this.#bytes -= item.bytes;
      this.#items[this.#done] = undefined;
      this.#done += 1;
    }
    if (this.#done < COMPACT_AT && this.#done < this.#items.length) return;
    this.#items = this.#items.slice(this.#done);
    this.#gone += this.#done;
    this.#done = 0;
  }
}
