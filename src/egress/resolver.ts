/**
 * Addresses of names, asked from the machine's name servers and pinned for as long as they say:
 * what a sandbox is told and what is dialled for it come from the same entry.
 */

import { Resolver } from "node:dns/promises";
import { BlockList, type Socket } from "node:net";
import { signalAfter } from "../common/late-signal.ts";
import { dialFirst } from "../common/sockets.ts";
import { createShares } from "./shares.ts";

const ASK = { timeout: 2_000, tries: 2 } as const;
/** An answer is kept for at least a moment, and asked anew at least every five minutes. */
const PIN_SECONDS = { min: 1, max: 300 } as const;
const FAILURE_SECONDS = 2;
/** More addresses than this no client tries; an answer fits into 512 bytes. */
const MAX_ADDRESSES = 12;
const MAX_PINS = 4_096;
/** Questions of one sandbox, and of all together, that wait for an answer at once. */
const MAX_ASKED = { ofOne: 64, ofAll: 256 } as const;

/** What a name leads to, without addresses that are never reached. */
export interface Pin {
  readonly outcome: "found" | "no name" | "failed";
  readonly addresses: readonly string[];
  readonly untilMs: number;
}

export interface NameResolver {
  /** What a sandbox is told of a name; `failed` where it asks for too much at once. */
  lookup(sender: string, name: string): Promise<Pin>;
}

export interface ResolverOptions {
  readonly servers: readonly string[];
  readonly never: readonly string[];
  readonly now: () => number;
}

export function createResolver({ servers, never, now }: ResolverOptions): NameResolver {
  const resolver = new Resolver(ASK);
  resolver.setServers([...servers]);
  const refused = toBlockList(never);
  const pins = new Map<string, Pin>();
  const asked = new Map<string, Promise<Pin>>();
  const shares = createShares(MAX_ASKED);
  const ask = async (name: string): Promise<Pin> => {
    const pin = await askServers(resolver, name, now);
    const addresses = pin.addresses.filter((address) => !refused.check(address));
    return { ...pin, addresses: addresses.slice(0, MAX_ADDRESSES) };
  };
  const keep = (name: string, pin: Pin): Pin => {
    pins.delete(name);
    pins.set(name, pin);
    const [oldest] = pins.keys();
    if (pins.size > MAX_PINS && oldest !== undefined) pins.delete(oldest);
    return pin;
  };
  return {
    async lookup(sender, name) {
      const known = pins.get(name);
      if (known !== undefined && known.untilMs > now()) return known;
      const running = asked.get(name);
      if (running !== undefined) return running;
      const giveBack = shares.take(sender);
      if (giveBack === undefined) return failure(now());
      const answer = ask(name).then((pin) => keep(name, pin));
      asked.set(name, answer);
      try {
        return await answer;
      } finally {
        asked.delete(name);
        giveBack();
      }
    },
  };
}

async function askServers(resolver: Resolver, name: string, now: () => number): Promise<Pin> {
  try {
    const records = await resolver.resolve4(name, { ttl: true });
    const ttl = Math.min(PIN_SECONDS.max, ...records.map((record) => record.ttl));
    return {
      outcome: "found",
      addresses: records.map((record) => record.address),
      untilMs: now() + Math.max(PIN_SECONDS.min, ttl) * 1_000,
    };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const failed = failure(now());
    if (code === "ENODATA") return { ...failed, outcome: "found" };
    return code === "ENOTFOUND" ? { ...failed, outcome: "no name" } : failed;
  }
}

function failure(nowMs: number): Pin {
  return { outcome: "failed", addresses: [], untilMs: nowMs + FAILURE_SECONDS * 1_000 };
}

function toBlockList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits = "32"] = network.split("/");
    list.addSubnet(address, Number(bits), "ipv4");
  }
  return list;
}

const DIAL_TIMEOUT_MS = 10_000;
const MAX_DIALS = 3;

/** The port of a host that a sandbox has named. */
export interface NamedPort {
  readonly sender: string;
  readonly name: string;
  readonly port: number;
}

/** Undefined when the name leads nowhere or nothing answers there. */
export async function dialName(
  resolver: NameResolver,
  { sender, name, port }: NamedPort,
): Promise<Socket | undefined> {
  const { addresses } = await resolver.lookup(sender, name);
  const signal = signalAfter(DIAL_TIMEOUT_MS);
  const dial = { addresses: addresses.slice(0, MAX_DIALS), port, signal, allowHalfOpen: true };
  // Why none answers makes no difference for the sandbox.
  return dialFirst(dial).catch(() => undefined);
}
