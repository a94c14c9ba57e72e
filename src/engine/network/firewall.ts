/**
 * A firewall of the machine that drops what it forwards, as container engines and distributions
 * configure it: what one table drops, no other lets through.
 */

import { listChains, listRules, type NetworkPath } from "./namespace.ts";

export interface Firewall {
  /** What drops, as `chain FORWARD of table ip filter`. */
  readonly name: string;
  /** What lets packets of sandboxes through. */
  readonly remedy: string;
}

/** The last rule of a chain whose policy accepts. */
const DROPS_REST =
  /^\s*(counter packets \d+ bytes \d+ )?(drop|reject( with [\w -]+)?)\s*\}\s*\}\s*$/m;
/** By the names of the links of routers, as rules have them. */
const NAMES_ROUTERS = '"sbm';

/** The first that drops packets of sandboxes; one whose rules name links of routers is for its owner to judge. */
export async function findFirewall(network: NetworkPath): Promise<Firewall | undefined> {
  for (const { table, name, type } of await listChains(network)) {
    const isForward = /\bhook forward\b/.test(type) && /^(ip|inet) /.test(table);
    if (!isForward || table.startsWith("inet sandbox_mcp_")) continue;
    const dropsRest = async () =>
      DROPS_REST.test(await listRules(network, `chain ${table} ${name}`));
    if (!/\bpolicy drop;/.test(type) && !(await dropsRest())) continue;
    const rules = await listRules(network, `table ${table}`);
    if (rules.includes(NAMES_ROUTERS)) continue;
    return { name: `chain ${name} of table ${table}`, remedy: remedyFor({ table, rules }) };
  }
  return undefined;
}

function remedyFor({ table, rules }: { readonly table: string; readonly rules: string }): string {
  if (table === "inet firewalld") {
    return "firewall-cmd --permanent --zone=trusted --add-interface=sbm+ && firewall-cmd --reload";
  }
  if (table !== "ip filter") return "let it accept what comes from and goes to the links sbm*";
  const has = (name: string) => rules.includes(`chain ${name} {`);
  if (has("ufw-user-forward") && !has("DOCKER-USER")) return "ufw route allow in on sbm+";
  const chain = has("DOCKER-USER") ? "DOCKER-USER" : "FORWARD";
  const answers = "-m conntrack --ctstate RELATED,ESTABLISHED";
  return (
    `iptables -I ${chain} -i sbm+ -j ACCEPT && ` +
    `iptables -I ${chain} -o sbm+ ${answers} -j ACCEPT`
  );
}
