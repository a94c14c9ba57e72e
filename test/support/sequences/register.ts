/**
 * A value that several clients change and read at once. A read fits if some change that had begun has its
 * value, and no other change began after the end of that one and ended before the read began.
 */

/** Counts what happens in one test: of two moments the later one has the greater number. */
export class Moments {
  /** When each of them was, in milliseconds of the clock that the service has, too. */
  readonly #timesMs: number[] = [];

  next(): number {
    return this.#timesMs.push(Date.now());
  }

  /** The moments between which something happened that the service dates to this millisecond. */
  around(timeMs: number): Span {
    const beganAt = this.#timesMs.findLastIndex((oneMs) => oneMs < timeMs) + 1;
    const endedAt = this.#timesMs.findLastIndex((oneMs) => oneMs <= timeMs) + 1;
    return { beganAt, endedAt };
  }
}

/** Two moments; what happened between them is later than the first and earlier than the next one. */
export interface Span {
  readonly beganAt: number;
  readonly endedAt: number;
}

interface Change<T> {
  /** Undefined while only the service knows it: every read fits. */
  value: { readonly is: T } | undefined;
  beganAt: number;
  /** Infinite while it may still come about. */
  endedAt: number;
  /** Whether it has come about. */
  isSure: boolean;
}

/** A change that has begun; without an end it may come about at any time. */
export interface OpenChange<T> {
  /** It has come about, with this value if it was not known before. */
  done(value?: { readonly is: T }): void;
  /** It has come about then. */
  doneWithin(span: Span): void;
  /** It has not, and will not. */
  undone(): void;
  /** It has, or it never will. */
  unsure(): void;
}

export class Register<T> {
  readonly #moments: Moments;
  readonly #changes = new Set<Change<T>>();

  constructor(moments: Moments, first: T) {
    this.#moments = moments;
    this.#changes.add({ value: { is: first }, beganAt: 0, endedAt: 0, isSure: true });
  }

  begin(value: T): OpenChange<T> {
    return this.#open({ is: value });
  }

  /** A change to a value that its answer tells. */
  beginUnknown(): OpenChange<T> {
    return this.#open(undefined);
  }

  #open(value: Change<T>["value"]): OpenChange<T> {
    const change: Change<T> = {
      value,
      beganAt: this.#moments.next(),
      endedAt: Number.POSITIVE_INFINITY,
      isSure: false,
    };
    this.#changes.add(change);
    const end = (isSure: boolean): void => {
      change.endedAt = this.#moments.next();
      change.isSure = isSure;
    };
    return {
      done: (told) => {
        change.value = told ?? change.value;
        end(true);
      },
      doneWithin: ({ beganAt, endedAt }) => {
        const isSure = true;
        Object.assign(change, { beganAt: Math.max(beganAt, change.beganAt), endedAt, isSure });
      },
      undone: () => void this.#changes.delete(change),
      unsure: () => end(false),
    };
  }

  /** Whether a read that began then, and ends now, may have found such a value. */
  fits(readBeganAt: number, isFound: (value: T) => boolean): boolean {
    return this.#fitting(readBeganAt).some(({ value }) => value === undefined || isFound(value.is));
  }

  /** The known values that such a read may have found. */
  possible(readBeganAt: number): ReadonlySet<T> {
    const values = this.#fitting(readBeganAt).flatMap(({ value }) => value ?? []);
    return new Set(values.map(({ is }) => is));
  }

  #fitting(readBeganAt: number): readonly Change<T>[] {
    const over = [...this.#changes].filter(
      ({ isSure, endedAt }) => isSure && endedAt < readBeganAt,
    );
    const newestBeganAt = Math.max(...over.map(({ beganAt }) => beganAt));
    return [...this.#changes].filter(({ endedAt }) => endedAt >= newestBeganAt);
  }
}
