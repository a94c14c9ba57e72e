/**
 * Forwarding for the link of the default route where nothing forwarded before, for routers alone. It
 * ends with the last router, unless the machine itself has begun to forward: then it is not ours.
 */

import { changeGuards, guardedLinks, readGuards, type GuardedLink } from "./forward-guard.ts";
import { defaultLink, listLinks, readSetting, type NetworkPath } from "./namespace.ts";

/** Another instance may begin or end at the same moment; the last check decides. */
const MAX_ROUNDS = 5;
/** Whether a machine forwards by itself. */
export const ALL_LINKS = "/proc/sys/net/ipv4/ip_forward";

/** Forwarding is on while any router has a link here; what was off before is off again after. */
export async function settleForwarding(outside: NetworkPath): Promise<void> {
  let released: readonly GuardedLink[] = [];
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const isUsed = await hasRouters(outside);
    if (isUsed) await switchOn(outside, released);
    else released = await switchOff(outside);
    if ((await hasRouters(outside)) === isUsed) return;
  }
}

async function hasRouters(outside: NetworkPath): Promise<boolean> {
  return (await listLinks(outside)).some((name) => /^sbm\d+$/.test(name));
}

/** One of `released` that forwards does so by a service that had seen the guard which was released. */
async function switchOn(outside: NetworkPath, released: readonly GuardedLink[]): Promise<void> {
  const [guards, name, isAlone] = await Promise.all([
    readGuards(outside),
    defaultLink(outside),
    isRouter(outside),
  ]);
  // The machine forwards by all links by now: those that did not because it did not are free.
  const isOurs = (link: GuardedLink) => link.isAlone || !isAlone;
  const kept = guardedLinks(guards).filter(isOurs);
  const wasOurs = released.some((link) => link.name === name && isOurs(link));
  const isFound =
    name === undefined || (!wasOurs && (await readSetting(outside, forwardingPath(name))) === "1");
  const others = kept.filter((link) => link.name !== name);
  await changeGuards(outside, guards, {
    guarded: isFound ? kept : [...others, { name, isAlone }],
    links: isFound ? [] : [name],
    forwards: true,
  });
}

/** The links that forward no more. */
async function switchOff(outside: NetworkPath): Promise<readonly GuardedLink[]> {
  const guards = await readGuards(outside);
  const guarded = guardedLinks(guards);
  if (guarded.length === 0) return [];
  const there = await listLinks(outside);
  const isFree = await isRouter(outside);
  const off = guarded.filter(({ name, isAlone }) => there.includes(name) && (isAlone || !isFree));
  const links = off.map(({ name }) => name);
  await changeGuards(outside, guards, { guarded: [], links, forwards: false });
  return off;
}

async function isRouter(outside: NetworkPath): Promise<boolean> {
  return (await readSetting(outside, ALL_LINKS)) === "1";
}

/** Whether a link forwards. */
export function forwardingPath(link: string): string {
  return `/proc/sys/net/ipv4/conf/${link}/forwarding`;
}
