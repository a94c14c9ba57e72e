/**
 * What keeps a link that forwards for routers alone from forwarding for other senders: a table of rules. A
 * firewall that is loaded anew (`nft flush ruleset`) takes the table along, so a policy rule records the link,
 * which stays until the machine restarts and leads into an empty table of routes: it changes no packet's way.
 */

import { runScript, type NetworkPath } from "./namespace.ts";
import { lines } from "./router-rules.ts";

const TABLE = "sandbox_mcp_forwarding";
/** Marks a link that did not forward although the machine did. */
const ALONE = "alone";
/** Of the policy rule that records a link: it says by its number whether the link is alone. */
const PREFERENCES = { shared: 198, alone: 199 } as const;
/** No program has routes in it: the letters `smcp`. */
const EMPTY_TABLE = 0x73_6d_63_70;

export interface GuardedLink {
  readonly name: string;
  readonly isAlone: boolean;
}

/** What is there of the guards. */
export interface Guards {
  readonly inTable: readonly GuardedLink[];
  readonly recorded: readonly GuardedLink[];
}

/** The kernel may be without policy routing, and another service may make or take the table at this moment. */
const READ = `ip -4 rule show 2> /dev/null
for try in 1 2 3; do
  nft -t list chain inet ${TABLE} forward && exit
  tables=$(nft list tables) || exit
  case $tables in *"table inet ${TABLE}"*) ;; *) exit 0 ;; esac
done
exit 1`;

export async function readGuards(outside: NetworkPath): Promise<Guards> {
  const text = await runScript(outside, [READ]);
  const inTable = [...text.matchAll(/iifname "([^"/]+)"(.*)/g)].map(([, name = "", rest = ""]) => ({
    name,
    isAlone: rest.includes(`comment "${ALONE}"`),
  }));
  return { inTable, recorded: parseRecords(text) };
}

/** The links that forward because of us, by whatever is left of their rules. */
export function guardedLinks({ inTable, recorded }: Guards): GuardedLink[] {
  return [...new Map([...recorded, ...inTable].map((link) => [link.name, link])).values()];
}

/**
 * Writes the setting of links around a change of their guards: what stops forwarding before it, too, and
 * again after it, as another service may have begun meanwhile. Records are missing with a kernel without
 * policy routing, and those that another service sets or takes at the same moment are no fault.
 */
const CHANGE = `value=$1 records=$2 found=
shift 2
forward() { for link; do printf %s "$value" > "/proc/sys/net/ipv4/conf/$link/forwarding" || exit; done; }
[ "$value" = 1 ] || forward "$@"
nft -f - || exit
faults=$(printf %s "$records" | ip -force -batch - 2>&1) || printf '%s\\n' "\${faults:-ip ended}" | {
  while IFS= read -r fault; do
    case $fault in "Command failed"* | *"not supported"* | *"File exists"* | *"No such file"*) continue ;; esac
    printf '%s\\n' "$fault" >&2
    found=1
  done
  [ -z "$found" ]
} || exit
forward "$@"`;

export interface GuardChange {
  /** These links alone are guarded from now on. */
  readonly guarded: readonly GuardedLink[];
  /** They forward from now on, or no more. */
  readonly links: readonly string[];
  readonly forwards: boolean;
}

/** Changes what is not so yet. */
export async function changeGuards(
  outside: NetworkPath,
  { inTable, recorded }: Guards,
  { guarded, links, forwards }: GuardChange,
): Promise<void> {
  const missing = guarded.filter((link) => !includes(inTable, link));
  const isLeft = (link: GuardedLink) => !includes(guarded, link);
  const isAnyLeft = inTable.some(isLeft) || recorded.some(isLeft);
  const rules = isAnyLeft ? withoutTable(TABLE) + guardTable(guarded) : guardTable(missing);
  const records = [
    ...recorded.filter(isLeft).map((link) => recordLine("del", link)),
    ...guarded.filter((link) => !includes(recorded, link)).map((link) => recordLine("add", link)),
  ];
  if (rules === "" && records.length === 0 && links.length === 0) return;
  await runScript(outside, [CHANGE, forwards ? "1" : "0", records.join("\n"), ...links], rules);
}

function includes(links: readonly GuardedLink[], { name, isAlone }: GuardedLink): boolean {
  return links.some((link) => link.name === name && link.isAlone === isAlone);
}

/** Removes a table, whether or not it is there. */
export function withoutTable(name: string): string {
  return lines([`add table inet ${name}`, `delete table inet ${name}`]);
}

function recordLine(verb: "add" | "del", { name, isAlone }: GuardedLink): string {
  const preference = PREFERENCES[isAlone ? "alone" : "shared"];
  // Of the kernel, by its word: systemd-networkd removes what others have set.
  return `rule ${verb} pref ${preference} protocol kernel iif ${name} lookup ${EMPTY_TABLE}`;
}

/** What a program that began to forward later, such as Docker, sends and publishes is let through at once. */
function guardTable(links: readonly GuardedLink[]): string {
  if (links.length === 0) return "";
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

function parseRecords(text: string): GuardedLink[] {
  const pattern = new RegExp(`^(\\d+):.*\\biif (\\S+) .*\\blookup ${EMPTY_TABLE}\\b`, "gm");
  return [...text.matchAll(pattern)].map(([, preference, name = ""]) => ({
    name,
    isAlone: Number(preference) === PREFERENCES.alone,
  }));
}
