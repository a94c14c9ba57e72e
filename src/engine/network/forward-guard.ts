/**
 * What keeps a link that forwards for routers alone from forwarding for other senders: a table of rules, and
 * policy rules of its routes. A firewall that is loaded anew (`nft flush ruleset`) takes the table along; the
 * policy rules stay. They drop what the table has not marked, and say which links forward because of us.
 */

import { errorText } from "../../common/errors.ts";
import {
  applyRules,
  changeLinks,
  listPolicyRules,
  listRules,
  listTables,
  type NetworkPath,
} from "./namespace.ts";
import { lines, UPLINK_NETWORK } from "./router-rules.ts";

const TABLE = "sandbox_mcp_forwarding";
/** Marks a link that did not forward although the machine did. */
const ALONE = "alone";
/** Before those of private networks, which lead into tables of their own. */
const PREFERENCES = { shared: 198, alone: 199 } as const;
/** Of a packet that others may have forwarded, between the last rule before its route and the first after. */
const MARK = 0x2_00_00_00;
const UNMARKED = 0xfd_ff_ff_ff;
const RULES_OF_A_LINK = 3;
/** A kernel without policy routing: the table alone holds there. */
const NOT_SUPPORTED = /not supported/i;

export interface GuardedLink {
  readonly name: string;
  readonly isAlone: boolean;
}

interface Guards {
  readonly inTable: readonly GuardedLink[];
  /** With all of their rules, or some. */
  readonly inPolicy: readonly (GuardedLink & { readonly count: number })[];
}

/** The links that forward because of us, by whatever is left of their rules. */
export async function listGuarded(outside: NetworkPath): Promise<GuardedLink[]> {
  const { inTable, inPolicy } = await readGuards(outside);
  return [...new Map([...inPolicy, ...inTable].map((link) => [link.name, link])).values()];
}

/** Sets the rules of these links that are not there. */
export async function guardLinks(
  outside: NetworkPath,
  links: readonly GuardedLink[],
): Promise<void> {
  if (links.length === 0) return;
  const { inTable, inPolicy } = await readGuards(outside);
  const isMissing = (link: GuardedLink) => !inTable.some(({ name }) => name === link.name);
  const missing = links.filter(isMissing);
  if (missing.length > 0) await applyRules(outside, guardTable(missing));
  for (const link of links) {
    const there = inPolicy.find(({ name }) => name === link.name);
    if (there?.count === RULES_OF_A_LINK) continue;
    if (there !== undefined) await changeLinks(outside, removal(there));
    await setPolicy(outside, link);
  }
}

/** The links of `kept` alone are guarded from now on. */
export async function releaseLinks(
  outside: NetworkPath,
  kept: readonly GuardedLink[],
): Promise<void> {
  const isKept = (name: string) => kept.some((link) => link.name === name);
  const { inPolicy } = await readGuards(outside);
  for (const link of inPolicy) {
    // Another service may do the same at this moment.
    if (!isKept(link.name)) await changeLinks(outside, removal(link)).catch(() => undefined);
  }
  await applyRules(outside, withoutTable(TABLE) + (kept.length > 0 ? guardTable(kept) : ""));
}

/** Removes a table, whether or not it is there. */
export function withoutTable(name: string): string {
  return lines([`add table inet ${name}`, `delete table inet ${name}`]);
}

async function setPolicy(outside: NetworkPath, { name, isAlone }: GuardedLink): Promise<void> {
  const rule = (rest: string) =>
    // Of the kernel, by its word: systemd-networkd removes what others have set.
    `rule add pref ${preferenceOf(isAlone)} protocol kernel iif ${name} ${rest}`;
  const rules = lines([
    // The machine itself is reached also where its own table of addresses is not the first.
    rule("lookup local"),
    rule(`to ${UPLINK_NETWORK} lookup main`),
    rule(`fwmark 0/0x${MARK.toString(16)} blackhole`),
  ]);
  try {
    await changeLinks(outside, rules);
  } catch (error) {
    if (!NOT_SUPPORTED.test(errorText(error))) throw error;
  }
}

function removal({ name, isAlone, count }: GuardedLink & { readonly count: number }): string {
  const one = `rule del pref ${preferenceOf(isAlone)} iif ${name}`;
  return lines(Array.from({ length: count }, () => one));
}

function preferenceOf(isAlone: boolean): number {
  return isAlone ? PREFERENCES.alone : PREFERENCES.shared;
}

/** What a program that began to forward later, such as Docker, sends and publishes is let through at once. */
function guardTable(links: readonly GuardedLink[]): string {
  const rules = links.flatMap(({ name, isAlone }) => {
    const mark = isAlone ? ` comment "${ALONE}"` : "";
    return [
      `add rule inet ${TABLE} before iifname "${name}" meta nfproto ipv4 jump marks`,
      `add rule inet ${TABLE} after iifname "${name}" meta mark set meta mark and ${UNMARKED}`,
      `add rule inet ${TABLE} forward iifname "${name}" oifname != "sbm*" jump others${mark}`,
    ];
  });
  const chain = (name: string, hook: string) =>
    `add chain inet ${TABLE} ${name} { type filter hook ${hook}; policy accept; }`;
  return lines([
    `add table inet ${TABLE}`,
    `add chain inet ${TABLE} marks`,
    `flush chain inet ${TABLE} marks`,
    `add rule inet ${TABLE} marks fib daddr type local return`,
    `add rule inet ${TABLE} marks ct state established,related meta mark set meta mark or ${MARK}`,
    `add rule inet ${TABLE} marks ct status dnat meta mark set meta mark or ${MARK}`,
    `add chain inet ${TABLE} others`,
    `flush chain inet ${TABLE} others`,
    `add rule inet ${TABLE} others ct state established,related accept`,
    `add rule inet ${TABLE} others ct status dnat accept`,
    `add rule inet ${TABLE} others meta nfproto ipv4 drop`,
    chain("before", "prerouting priority 300"),
    chain("after", "forward priority -300"),
    chain("forward", "forward priority -20"),
    ...rules,
  ]);
}

async function readGuards(outside: NetworkPath): Promise<Guards> {
  const policy = await listPolicyRules(outside);
  const hasTable = (await listTables(outside)).includes(TABLE);
  const table = hasTable ? await listRules(outside, `chain inet ${TABLE} forward`) : "";
  const inTable = [...table.matchAll(/iifname "([^"/]+)"(.*)/g)].map(
    ([, name = "", rest = ""]) => ({ name, isAlone: rest.includes(`comment "${ALONE}"`) }),
  );
  return { inTable, inPolicy: parsePolicy(policy) };
}

function parsePolicy(text: string): Guards["inPolicy"] {
  const counts = new Map<string, GuardedLink & { readonly count: number }>();
  for (const [, preference, name = ""] of text.matchAll(/^(\d+):.*\biif (\S+)/gm)) {
    const isAlone = Number(preference) === PREFERENCES.alone;
    if (!isAlone && Number(preference) !== PREFERENCES.shared) continue;
    const key = `${preference} ${name}`;
    counts.set(key, { name, isAlone, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()];
}
