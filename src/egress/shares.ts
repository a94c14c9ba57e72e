/**
 * Places that all sandboxes share. One sandbox has at most as many as are still free, so it never has
 * the last one: beside n sandboxes that take all they can, another one finds a part of n + 1.
 */

export interface Shares {
  /** Takes a place, and returns what gives it back; undefined where the sender has its share. */
  take(sender: string): (() => void) | undefined;
}

export function createShares({
  ofOne,
  ofAll,
}: {
  readonly ofOne: number;
  readonly ofAll: number;
}): Shares {
  const taken = new Map<string, number>();
  let count = 0;
  return {
    take(sender) {
      const own = taken.get(sender) ?? 0;
      if (own >= Math.min(ofOne, ofAll - count)) return undefined;
      taken.set(sender, own + 1);
      count += 1;
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        count -= 1;
        const left = (taken.get(sender) ?? 1) - 1;
        if (left === 0) taken.delete(sender);
        else taken.set(sender, left);
      };
    },
  };
}
