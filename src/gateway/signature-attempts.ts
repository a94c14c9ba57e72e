/**
 * Wrong signatures, counted for each address. Beyond a bound the signatures of an address are looked
 * at in turns: each one's turn comes by itself, so a right one waits for a minute at most, whatever
 * else comes from there.
 */

import { createHash, randomBytes } from "node:crypto";
import { isIPv6 } from "node:net";
import type { Clock } from "../common/clock.ts";

/** Wrong ones that an address has at once, and how fast they come back. */
const MAX_BURST = 60;
const PER_SECOND = 1;
/** Addresses that are counted; the one that was wrong the longest time ago is forgotten first. */
const MAX_ADDRESSES = 4096;
/** Long enough for whoever comes after whole seconds of waiting. */
const TURN_MS = 2000;
const TURNS = 32;

export interface SignatureAttempts {
  /** 0 when a signature may be looked at now, else whole seconds until it may. */
  waitSeconds(address: string | undefined, signature: string): number;
  /** Counts one that was looked at and wrong. */
  noteWrong(address: string | undefined): void;
}

interface Count {
  readonly left: number;
  readonly atMs: number;
}

/** Without an address the client is a process of this user, on the private socket: not counted. */
export function createSignatureAttempts(clock: Clock): SignatureAttempts {
  const counts = new Map<string, Count>();
  // Nobody can choose a signature for its turn.
  const salt = randomBytes(16);

  function leftOf(network: string): number {
    const { left, atMs } = counts.get(network) ?? { left: MAX_BURST, atMs: 0 };
    return Math.min(left + (Math.max(clock.now() - atMs, 0) / 1000) * PER_SECOND, MAX_BURST);
  }

  function turnOf(signature: string): number {
    return (createHash("sha256").update(salt).update(signature).digest()[0] ?? 0) % TURNS;
  }

  return {
    waitSeconds(address, signature) {
      if (address === undefined || leftOf(toNetwork(address)) >= 1) return 0;
      const nowMs = clock.now();
      const turn = Math.floor(nowMs / TURN_MS);
      const turnsAhead = (turnOf(signature) - (turn % TURNS) + TURNS) % TURNS;
      return turnsAhead === 0 ? 0 : Math.ceil(((turn + turnsAhead) * TURN_MS - nowMs) / 1000);
    },
    noteWrong(address) {
      if (address === undefined) return;
      const network = toNetwork(address);
      const left = Math.max(leftOf(network) - 1, 0);
      counts.delete(network);
      counts.set(network, { left, atMs: clock.now() });
      const [oldest] = counts.keys();
      if (counts.size > MAX_ADDRESSES && oldest !== undefined) counts.delete(oldest);
    },
  };
}

const GROUPS = 8;
const NETWORK_GROUPS = 4;

/** An IPv4 address, or the network of 64 bits that one customer has of IPv6. */
export function toNetwork(address: string): string {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !isIPv6(address)) return mapped ?? address;
  const [bare = ""] = address.toLowerCase().split("%", 1);
  const [head = "", tail] = bare.split("::", 2);
  const first = head === "" ? [] : head.split(":");
  const last = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = Math.max(GROUPS - first.length - last.length, 0);
  const groups = [...first, ...Array.from({ length: missing }, () => "0"), ...last];
  return groups.slice(0, NETWORK_GROUPS).join(":");
}
