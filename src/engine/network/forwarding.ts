/**
 * Forwarding for the link of the default route where nothing forwarded before, for routers alone. It
 * ends with the last router, unless the machine itself has begun to forward: then it is not ours.
 */

import {
  applyRules,
  defaultLink,
  listLinks,
  listRules,
  listTables,
  readSetting,
  writeSettings,
  type NetworkPath,
} from "./namespace.ts";
import { lines } from "./router-rules.ts";

/**
 * This table says which links forward because of us, and keeps them from forwarding for others. They are
 * several where the default route has moved.
 */
const TABLE = "sandbox_mcp_forwarding";
/** Marks a link that did not forward although the machine did. */
const ALONE = "alone";
/** Another instance may begin or end at the same moment; the last check decides. */
const MAX_ROUNDS = 5;
const ALL_LINKS = "/proc/sys/net/ipv4/ip_forward";

interface GuardedLink {
  readonly name: string;
  readonly isAlone: boolean;
}

/** Forwarding is on while any router has a link here; what was off before is off again after. */
export async function settleForwarding(outside: NetworkPath): Promise<void> {
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const isUsed = await hasRouters(outside);
    if (isUsed) await switchOn(outside);
    else await switchOff(outside);
    if ((await hasRouters(outside)) === isUsed) return;
  }
}

async function hasRouters(outside: NetworkPath): Promise<boolean> {
  return (await listLinks(outside)).some((name) => /^sbm\d+$/.test(name));
}

async function switchOn(outside: NetworkPath): Promise<void> {
  const isAlone = await isRouter(outside);
  if (isAlone) await stopGuarding(outside);
  const name = await defaultLink(outside);
  if (name === undefined) return;
  if ((await readSetting(outside, forwardingPath(name))) === "1") return;
  await applyRules(outside, guardRules([{ name, isAlone }]));
  await writeSettings(outside, [[forwardingPath(name), "1"]]);
}

/** What a program that began to forward later, such as Docker, sends and publishes is let through at once. */
function guardRules(links: readonly GuardedLink[]): string {
  const rules = links.map(({ name, isAlone }) => {
    const mark = isAlone ? ` comment "${ALONE}"` : "";
    return `add rule inet ${TABLE} forward iifname "${name}" oifname != "sbm*" jump others${mark}`;
  });
  return lines([
    `add table inet ${TABLE}`,
    `add chain inet ${TABLE} others`,
    `flush chain inet ${TABLE} others`,
    `add rule inet ${TABLE} others ct state established,related accept`,
    `add rule inet ${TABLE} others ct status dnat accept`,
    `add rule inet ${TABLE} others meta nfproto ipv4 drop`,
    `add chain inet ${TABLE} forward { type filter hook forward priority -20; policy accept; }`,
    ...rules,
  ]);
}

/** The machine forwards by all links by now: those that did not because it did not are free. */
async function stopGuarding(outside: NetworkPath): Promise<void> {
  const guarded = await listGuarded(outside);
  const kept = guarded.filter(({ isAlone }) => isAlone);
  if (kept.length === guarded.length) return;
  await applyRules(outside, withoutTable(TABLE) + (kept.length > 0 ? guardRules(kept) : ""));
}

async function switchOff(outside: NetworkPath): Promise<void> {
  const guarded = await listGuarded(outside);
  if (guarded.length === 0) return;
  const there = await listLinks(outside);
  const isFree = await isRouter(outside);
  const off = guarded.filter(({ name, isAlone }) => there.includes(name) && (isAlone || !isFree));
  await writeSettings(
    outside,
    off.map(({ name }) => [forwardingPath(name), "0"]),
  );
  await applyRules(outside, withoutTable(TABLE));
}

async function listGuarded(outside: NetworkPath): Promise<GuardedLink[]> {
  if (!(await listTables(outside)).includes(TABLE)) return [];
  const text = await listRules(outside, `table inet ${TABLE}`);
  return [...text.matchAll(/iifname "([^"/]+)"(.*)/g)].map(([, name = "", rest = ""]) => ({
    name,
    isAlone: rest.includes(`comment "${ALONE}"`),
  }));
}

async function isRouter(outside: NetworkPath): Promise<boolean> {
  return (await readSetting(outside, ALL_LINKS)) === "1";
}

/** Removes a table, whether or not it is there. */
export function withoutTable(name: string): string {
  return lines([`add table inet ${name}`, `delete table inet ${name}`]);
}

/** Whether a link forwards. */
export function forwardingPath(link: string): string {
  return `/proc/sys/net/ipv4/conf/${link}/forwarding`;
}
