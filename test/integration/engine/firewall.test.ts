/** Firewalls of a machine that drop what it forwards, as they are configured by default. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { findFirewall } from "../../../src/engine/network/firewall.ts";
import { makeNetwork, within } from "../../support/network/router-parts.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const FORWARD = "add table ip filter; add chain ip filter FORWARD";
const DROPS = "{ type filter hook forward priority filter; policy drop; }";
const ACCEPTS = "{ type filter hook forward priority filter + 10; policy accept; }";
const LETS_ROUTERS = 'iifname "sbm*" accept';

const iptables = (chain: string) =>
  `iptables -I ${chain} -i sbm+ -j ACCEPT && ` +
  `iptables -I ${chain} -o sbm+ -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`;
const FILTER = "chain FORWARD of table ip filter";
const FIREWALLD = "chain filter_FORWARD of table inet firewalld";
const firewalld = `add table inet firewalld; add chain inet firewalld filter_FORWARD ${ACCEPTS}
add rule inet firewalld filter_FORWARD ct state established,related accept
add rule inet firewalld filter_FORWARD counter reject with icmpx admin-prohibited`;

test.skipIf(isRootless()).for([
  ["none", "", undefined],
  ["one that accepts", `${FORWARD} { type filter hook forward priority 0; }`, undefined],
  [
    "of what comes in alone",
    "add table ip t; add chain ip t c { type filter hook input priority 0; policy drop; }",
    undefined,
  ],
  ["for IPv6 alone", `add table ip6 t; add chain ip6 t c ${DROPS}`, undefined],
  [
    "our own",
    `add table inet sandbox_mcp_7; add chain inet sandbox_mcp_7 forward ${DROPS}`,
    undefined,
  ],
  [
    "of Docker",
    `${FORWARD} ${DROPS}; add chain ip filter DOCKER-USER`,
    { name: FILTER, remedy: iptables("DOCKER-USER") },
  ],
  [
    "of ufw",
    `${FORWARD} ${DROPS}; add chain ip filter ufw-user-forward`,
    { name: FILTER, remedy: "ufw route allow in on sbm+" },
  ],
  ["of iptables", `${FORWARD} ${DROPS}`, { name: FILTER, remedy: iptables("FORWARD") }],
  [
    "that lets routers through",
    `${FORWARD} ${DROPS}; add rule ip filter FORWARD ${LETS_ROUTERS}`,
    undefined,
  ],
  [
    "of firewalld",
    firewalld,
    {
      name: FIREWALLD,
      remedy:
        "firewall-cmd --permanent --zone=trusted --add-interface=sbm+ && firewall-cmd --reload",
    },
  ],
  [
    "of firewalld that trusts routers",
    `${firewalld}\nadd chain inet firewalld zones; add rule inet firewalld zones ${LETS_ROUTERS}`,
    undefined,
  ],
  [
    "whose last rule is for some packets",
    `${FORWARD} ${ACCEPTS}; add rule ip filter FORWARD iifname "x" drop`,
    undefined,
  ],
  [
    "of somebody else",
    `add table inet own; add chain inet own f ${DROPS}`,
    {
      name: "chain f of table inet own",
      remedy: "let it accept what comes from and goes to the links sbm*",
    },
  ],
] as const)("a firewall: %s", async ([_name, rules, found]) => {
  await using folder = await makeTempFolder();
  await using network = await makeNetwork(join(folder.path, "network"));
  await within(network.path, `nft -f - <<'END'\n${rules}\nEND`);
  expect(await findFirewall(network.path)).toEqual(found);
});
