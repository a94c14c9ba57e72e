/**
 * One connection to a host that has several addresses (RFC 8305): families alternate, a slow address
 * does not hold up the next one, and the first connection wins. Node's own selection gives each address
 * up after 250 ms instead, also one that would have answered.
 */

import { connect, isIPv6, type Socket } from "node:net";

/** How long an address is tried alone; the delay that the RFC recommends. */
const STAGGER_MS = 250;
const ATTEMPT_TIMEOUT_MS = 10_000;
/** More addresses of one host are not tried. */
const MAX_ATTEMPTS = 6;

export interface AddressDial {
  /** IP addresses, the preferred one first. */
  readonly addresses: readonly string[];
  readonly port: number;
  readonly signal: AbortSignal;
  readonly allowHalfOpen?: boolean;
}

/**
 * A connection to the address that answers first; no other one stays open.
 * @throws the error of the first address that failed, when all did; the reason of the signal
 */
export async function dialFirst(dial: AddressDial): Promise<Socket> {
  const { signal } = dial;
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const race = new Race(dial, { resolve, reject });
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  race.tryNext();
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    race.end();
  }
}

/** The addresses with their families in turn, beginning with that of the first one. */
export function alternateFamilies(addresses: readonly string[]): string[] {
  const isFirst = (address: string) => isIPv6(address) === isIPv6(addresses[0] ?? "");
  const first = addresses.filter((address) => isFirst(address));
  const other = addresses.filter((address) => !isFirst(address));
  const longest = Math.max(first.length, other.length);
  return [...Array(longest).keys()].flatMap((index) => [
    ...first.slice(index, index + 1),
    ...other.slice(index, index + 1),
  ]);
}

interface Outcome {
  readonly resolve: (socket: Socket) => void;
  readonly reject: (error: unknown) => void;
}

class Race {
  readonly #dial: AddressDial;
  readonly #outcome: Outcome;
  readonly #left: string[];
  /** Attempts that have not ended, each with its time limit. */
  readonly #open = new Map<Socket, NodeJS.Timeout>();
  #stagger: NodeJS.Timeout | undefined;
  #fault: unknown;
  #hasEnded = false;

  constructor(dial: AddressDial, outcome: Outcome) {
    this.#dial = dial;
    this.#outcome = outcome;
    this.#left = alternateFamilies(dial.addresses).slice(0, MAX_ATTEMPTS);
  }

  tryNext(): void {
    clearTimeout(this.#stagger);
    const host = this.#left.shift();
    if (host !== undefined) this.#attempt(host);
    else if (this.#open.size === 0) this.#outcome.reject(this.#fault ?? new Error("no address"));
    if (this.#left.length > 0) this.#stagger = setTimeout(() => this.tryNext(), STAGGER_MS);
  }

  /** Closes every connection but the one that won. */
  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#stagger);
    for (const [socket, limit] of this.#open) {
      clearTimeout(limit);
      socket.destroy();
    }
  }

  #attempt(host: string): void {
    const { port, allowHalfOpen = false } = this.#dial;
    const socket = connect({ host, port, allowHalfOpen, noDelay: true });
    const limit = setTimeout(() => socket.destroy(timeout(host, port)), ATTEMPT_TIMEOUT_MS);
    this.#open.set(socket, limit);
    const onError = (error: Error) => {
      if (this.#hasEnded) return;
      clearTimeout(limit);
      this.#open.delete(socket);
      this.#fault ??= error;
      this.tryNext();
    };
    socket.on("error", onError);
    socket.once("connect", () => {
      // Of two that connect at once the second one is closed with the race.
      if (this.#hasEnded) return;
      this.#hasEnded = true;
      clearTimeout(limit);
      this.#open.delete(socket);
      socket.off("error", onError);
      this.#outcome.resolve(socket);
    });
  }
}

function timeout(host: string, port: number): Error {
  return Object.assign(new Error(`connect ETIMEDOUT ${host}:${port}`), { code: "ETIMEDOUT" });
}
