/** Which sandbox may reach which names, and what is open because of it. */

import { isNamed } from "./host-names.ts";
import { createShares } from "./shares.ts";

/** Connections of one sandbox, and of all together. */
const MAX_OPEN = { ofOne: 512, ofAll: 4_096 } as const;

export interface Policies {
  /** Whether a sandbox, by its address, may reach a name. */
  mayReach(sender: string, name: string): boolean;
  /** Whether a sandbox is known here at all. */
  knows(sender: string): boolean;
  /** Replaces the patterns of a sandbox and ends what they do not allow; null forgets it. */
  replace(sender: string, domains: readonly string[] | null): void;
  /**
   * Notes something that is open; `end` is called once a change of rules forbids it. What has no
   * name yet is asked for it again at each change. Undefined when the sandbox has too many already.
   */
  hold(sender: string, held: Held): (() => void) | undefined;
}

export interface Held {
  /** Undefined as long as it leads nowhere. */
  readonly name: string | undefined;
  end(): void;
}

export function createPolicies(): Policies {
  const patterns = new Map<string, readonly string[]>();
  const open = new Map<string, Set<Held>>();
  const shares = createShares(MAX_OPEN);
  const mayReach = (sender: string, name: string) => isNamed(name, patterns.get(sender) ?? []);
  return {
    mayReach,
    knows: (sender) => patterns.has(sender),
    replace(sender, domains) {
      if (domains === null) patterns.delete(sender);
      else patterns.set(sender, domains);
      for (const held of open.get(sender) ?? []) {
        const stays = held.name === undefined ? domains !== null : mayReach(sender, held.name);
        if (!stays) held.end();
      }
    },
    hold(sender, held) {
      const giveBack = shares.take(sender);
      if (giveBack === undefined) return undefined;
      const others = open.get(sender) ?? new Set();
      open.set(sender, others.add(held));
      return () => {
        giveBack();
        others.delete(held);
        if (others.size === 0 && open.get(sender) === others) open.delete(sender);
      };
    },
  };
}
