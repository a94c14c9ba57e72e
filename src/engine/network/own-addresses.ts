/**
 * The addresses that lead to this machine itself, as its kernel has them: also those of links that
 * are down, and whole networks that it takes for its own.
 */

import { open } from "node:fs/promises";
import { listAddresses, type NetworkPath } from "./namespace.ts";

/** The routes of this process's namespace, local ones too; every process may read them. */
const ROUTES = "/proc/self/net/fib_trie";
/** Some 10,000 routes; who has more is a router of the internet. */
const MAX_BYTES = 1024 * 1024;
const WATCH_INTERVAL_MS = 1_000;

/** Addresses or networks of an outside: a router refuses them by itself too, also while its rules outside are gone. */
export async function readHosts(outside: NetworkPath): Promise<readonly string[]> {
  const own = outside === undefined ? await readOwnAddresses() : undefined;
  return own ?? listAddresses(outside);
}

/** Networks in CIDR notation; undefined where there are too many routes to look through. */
export async function readOwnAddresses(): Promise<string[] | undefined> {
  await using file = await open(ROUTES);
  const text = Buffer.alloc(MAX_BYTES);
  let size = 0;
  while (size < MAX_BYTES) {
    const { bytesRead } = await file.read(text, size, MAX_BYTES - size);
    if (bytesRead === 0) return parseOwnAddresses(text.toString("latin1", 0, size));
    size += bytesRead;
  }
  return undefined;
}

/** An address is on a line of its own, and what it is on the lines after it. */
export function parseOwnAddresses(text: string): string[] {
  const found = new Set<string>();
  let address = "";
  for (const line of text.split("\n")) {
    address = /^\s*\|-- (\S+)/.exec(line)?.[1] ?? address;
    const length = /^\s*(\/\d+) host LOCAL\b/.exec(line)?.[1];
    if (length !== undefined) found.add(address + length);
  }
  return [...found].toSorted();
}

/** Calls with the new addresses whenever they are other ones, until it is disposed. */
export function watchOwnAddresses(
  known: readonly string[],
  onChange: (addresses: readonly string[]) => Promise<void>,
): Disposable {
  let last = known.join();
  let isBusy = false;
  const look = async () => {
    const addresses = await readOwnAddresses();
    if (addresses === undefined || addresses.join() === last) return;
    await onChange(addresses);
    last = addresses.join();
  };
  const timer = setInterval(() => {
    if (isBusy) return;
    isBusy = true;
    // What fails is done again at the next look: these addresses are not the last ones then.
    void look()
      .catch(() => undefined)
      .finally(() => (isBusy = false));
  }, WATCH_INTERVAL_MS).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
