/**
 * What keeps a link that forwards for routers alone from forwarding for other senders: a table of rules. A
 * firewall that is loaded anew (`nft flush ruleset`) takes the table along, so a policy rule records the link,
 * which stays until the machine restarts and leads into an empty table of routes: it changes no packet's way.
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
import { lines } from "./router-rules.ts";

const TABLE = "sandbox_mcp_forwarding";
/** Marks a link that did not forward although the machine did. */
const ALONE = "alone";
/** Of the policy rule that records a link: it says by its number whether the link is alone. */
const PREFERENCES = { shared: 198, alone: 199 } as const;
/** No program has routes in it: the letters `smcp`. */
const EMPTY_TABLE = 0x73_6d_63_70;
/** By a kernel without policy routing, where the table is the only record; and of a rule that another service has set. */
const NO_FAULT = /not supported|file exists/i;

export interface GuardedLink {
  readonly name: string;
  readonly isAlone: boolean;
}

interface Guards {
  readonly inTable: readonly GuardedLink[];
  readonly recorded: readonly GuardedLink[];
}

/** The links that forward because of us, by whatever is left of their rules. */
export async function listGuarded(outside: NetworkPath): Promise<GuardedLink[]> {
  const { inTable, recorded } = await readGuards(outside);
  return [...new Map([...recorded, ...inTable].map((link) => [link.name, link])).values()];
}

/** Sets what is not there of the rules of these links. */
export async function guardLinks(
  outside: NetworkPath,
  links: readonly GuardedLink[],
): Promise<void> {
  if (links.length === 0) return;
  const { inTable, recorded } = await readGuards(outside);
  const missing = links.filter((link) => !includes(inTable, link));
  if (missing.length > 0) await applyRules(outside, guardTable(missing));
  for (const link of links) if (!includes(recorded, link)) await record(outside, link);
}

/** The links of `kept` alone are guarded from now on. */
export async function releaseLinks(
  outside: NetworkPath,
  kept: readonly GuardedLink[],
): Promise<void> {
  const { recorded } = await readGuards(outside);
  await applyRules(outside, withoutTable(TABLE) + (kept.length > 0 ? guardTable(kept) : ""));
  for (const link of recorded) {
    // Another service may do the same at this moment.
    if (!includes(kept, link)) await changeRule(outside, "del", link).catch(() => undefined);
  }
}

function includes(links: readonly GuardedLink[], { name, isAlone }: GuardedLink): boolean {
  return links.some((link) => link.name === name && link.isAlone === isAlone);
}

/** Removes a table, whether or not it is there. */
export function withoutTable(name: string): string {
  return lines([`add table inet ${name}`, `delete table inet ${name}`]);
}

async function record(outside: NetworkPath, link: GuardedLink): Promise<void> {
  try {
    await changeRule(outside, "add", link);
  } catch (error) {
    if (!NO_FAULT.test(errorText(error))) throw error;
  }
}

async function changeRule(
  outside: NetworkPath,
  verb: "add" | "del",
  { name, isAlone }: GuardedLink,
): Promise<void> {
  const preference = PREFERENCES[isAlone ? "alone" : "shared"];
  // Of the kernel, by its word: systemd-networkd removes what others have set.
  const rule = `pref ${preference} protocol kernel iif ${name} lookup ${EMPTY_TABLE}`;
  await changeLinks(outside, lines([`rule ${verb} ${rule}`]));
}

/** What a program that began to forward later, such as Docker, sends and publishes is let through at once. */
function guardTable(links: readonly GuardedLink[]): string {
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

async function readGuards(outside: NetworkPath): Promise<Guards> {
  const policy = await listPolicyRules(outside);
  const table = await readTable(outside);
  const inTable = [...table.matchAll(/iifname "([^"/]+)"(.*)/g)].map(
    ([, name = "", rest = ""]) => ({ name, isAlone: rest.includes(`comment "${ALONE}"`) }),
  );
  return { inTable, recorded: parseRecords(policy) };
}

/** Empty where there is no table; another service may take it away meanwhile. */
async function readTable(outside: NetworkPath): Promise<string> {
  const hasTable = async () => (await listTables(outside)).includes(TABLE);
  if (!(await hasTable())) return "";
  try {
    return await listRules(outside, `chain inet ${TABLE} forward`);
  } catch (error) {
    if (await hasTable()) throw error;
    return "";
  }
}

function parseRecords(text: string): GuardedLink[] {
  const pattern = new RegExp(`^(\\d+):.*\\biif (\\S+) .*\\blookup ${EMPTY_TABLE}\\b`, "gm");
  return [...text.matchAll(pattern)].map(([, preference, name = ""]) => ({
    name,
    isAlone: Number(preference) === PREFERENCES.alone,
  }));
}
