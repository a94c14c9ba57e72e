/**
 * What a service has acknowledged, and when, by the number of writes that its disk had seen: which values
 * a thing may have after a power cut at any of them.
 */

import { z } from "../../../src/common/schema.ts";

/** Undefined: it is not there. */
export type Value = string | undefined;

/** The number of writes before it was asked for, and after it was answered. */
const changeSchema = z.object({
  value: z.string().optional(),
  begunAt: z.number(),
  answeredAt: z.number(),
});
type Change = z.infer<typeof changeSchema>;

/** All changes of each thing, by its name: another process makes the same ledger of them. */
export const changesSchema = z.array(z.tuple([z.string(), z.array(changeSchema)]));
type Changes = z.infer<typeof changesSchema>;

export interface Ledger {
  /** Of everything that was ever changed. */
  readonly names: readonly string[];
  changes(): Changes;
  /** Positions at which a thing was acknowledged whose name is meant, each once, in their order. */
  answers(isMeant: (name: string) => boolean): readonly number[];
  /** Does a change and notes it; `note` tells name and value once it was answered. */
  change<T>(act: () => Promise<T>, note: (answer: T) => Noted | Promise<Noted>): Promise<T>;
  /** The values that a thing may have after a cut. */
  allowed(name: string, position: number): ReadonlySet<Value>;
  /** What was acknowledged last before a cut. */
  acknowledged(name: string, position: number): Value;
}

/** Several things may change at once. */
export type Noted = readonly (readonly [name: string, value: Value])[];

export function createLedger(position: () => number, earlier: Changes = []): Ledger {
  const changes = new Map<string, Change[]>(earlier);
  const before = (name: string, limit: number) =>
    (changes.get(name) ?? []).findLastIndex(({ answeredAt }) => answeredAt <= limit);
  return {
    get names() {
      return [...changes.keys()];
    },
    changes: () => [...changes],
    answers(isMeant) {
      const meant = [...changes].filter(([name]) => isMeant(name));
      const all = meant.flatMap(([_name, known]) => known.map(({ answeredAt }) => answeredAt));
      return [...new Set(all)].toSorted((left, right) => left - right);
    },
    async change(act, note) {
      const begunAt = position();
      const answer = await act();
      const answeredAt = position();
      for (const [name, value] of await note(answer)) {
        const known = changes.get(name) ?? [];
        changes.set(name, [...known, { value, begunAt, answeredAt }]);
      }
      return answer;
    },
    allowed(name, limit) {
      const known = changes.get(name) ?? [];
      const last = before(name, limit);
      const begun = known.slice(last + 1).filter(({ begunAt }) => begunAt <= limit);
      return new Set([known[last]?.value, ...begun.map(({ value }) => value)]);
    },
    acknowledged: (name, limit) => changes.get(name)?.[before(name, limit)]?.value,
  };
}
