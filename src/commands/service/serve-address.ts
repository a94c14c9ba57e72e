/** Where a running `serve` is reached, left in its folder for the stdio servers of the same user. */

import { rm } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { readIfThere, writeWhole } from "../../common/files.ts";
import { z } from "../../common/schema.ts";
import type { Config } from "../../config.ts";
import { instanceDirectory, isAlive } from "../../sandboxes/reclaim/instance-folder.ts";
import { withoutPort } from "../../wire/address.ts";

const addressSchema = z.object({
  publicUrl: z.url(),
  /** Gateway hosts are `{port}-{sandboxID}.<domain>`. */
  domain: z.string(),
});

export type ServeAddress = z.infer<typeof addressSchema>;

/** The name of `serve` in the home: one at a time, and its sandboxes are found again. */
export const SERVE_INSTANCE = "serve";

/** A service that finds many sandboxes again takes seconds; its listener is open before that. */
const MAX_START_MS = 30_000;
const START_POLL_MS = 50;

type Scheme = "http" | "https";

/** The base URL of a listener on this machine. */
export function listenerUrl(scheme: Scheme, host: string, port: number | undefined): string {
  return `${scheme}://${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** As `listenerUrl`, where an address that stands for all is replaced by one that can be dialled. */
export function reachableUrl(scheme: Scheme, host: string, port: number | undefined): string {
  if (host === "0.0.0.0") return listenerUrl(scheme, "127.0.0.1", port);
  return listenerUrl(scheme, host === "::" ? "::1" : host, port);
}

/**
 * Where clients elsewhere reach the listener; undefined where its domain names the port of a proxy
 * in front of it, which speaks TLS at the hosts of that domain.
 */
export function clientUrl(
  { host, domain }: Pick<Config, "host" | "domain">,
  scheme: Scheme,
  port: number | undefined,
): string | undefined {
  return hasProxy(domain, port) ? undefined : reachableUrl(scheme, host, port);
}

/** Whether a domain names the port of a proxy in front of the listener at `port`, which speaks TLS. */
export function hasProxy(domain: string, port: number | undefined): boolean {
  return port !== undefined && withoutPort(domain) !== domain && !domain.endsWith(`:${port}`);
}

function addressPath(home: string, instance: string): string {
  return join(instanceDirectory(home, instance), "address.json");
}

/** Leaves the address; it counts as long as the instance lives. */
export async function publishAddress(
  home: string,
  instance: string,
  address: ServeAddress,
): Promise<AsyncDisposable> {
  await writeWhole(addressPath(home, instance), JSON.stringify(address));
  return { [Symbol.asyncDispose]: () => forgetAddress(home, instance) };
}

/** Removes the address, also one that an earlier process of this name has left. */
export async function forgetAddress(home: string, instance: string): Promise<void> {
  await rm(addressPath(home, instance), { force: true });
}

/**
 * Waits until an instance that is starting has left its address; undefined when it ends instead, or
 * does not come so far in time.
 */
export async function awaitAddress(
  home: string,
  instance: string,
): Promise<ServeAddress | undefined> {
  const untilMs = performance.now() + MAX_START_MS;
  for (;;) {
    const address = await findAddress(home, instance);
    if (address !== undefined || performance.now() > untilMs) return address;
    if (!(await isAlive(home, instance))) return undefined;
    await delay(START_POLL_MS);
  }
}

/** The address of an instance; undefined while it has left none. */
async function findAddress(home: string, instance: string): Promise<ServeAddress | undefined> {
  const text = await readIfThere(addressPath(home, instance));
  return text === undefined ? undefined : addressSchema.parse(JSON.parse(text));
}
