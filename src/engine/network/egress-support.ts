/** Whether containers of this machine can be given a way to the internet, found out by trying. */

import { open } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";
import { causeCode, errorText } from "../../common/errors.ts";
import { canWrite, readIfThere, readKernelFile } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { EngineCheck } from "../engine.ts";
import { findProgram } from "../host/find-program.ts";
import { installCommand } from "../host/install-command.ts";
import { findFirewall, type Firewall } from "./firewall.ts";
import type { HostNetwork } from "./host-network.ts";
import { defaultLink, makeNetwork } from "./namespace.ts";
import { MAX_RESOLVERS, routerRules, senderRules } from "./router-rules.ts";
import { uplinkRules } from "./uplink.ts";
import { tryUserRouter } from "./user-router.ts";
import { UPLINK_PROGRAM } from "./user-uplink.ts";

const PROGRAMS = ["nft", "ip", "nsenter", "unshare", "umount"] as const;
/** What an ordinary user's internet access is made of besides. */
const TUNNEL = "/dev/net/tun";
/** The second is what systemd-resolved asks when the first names nothing but itself. */
const RESOLVER_FILES = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/** In the kernel's table of routes. */
const ANYWHERE = "00000000";

/** How the network of containers is meant to be; undefined for loopback alone. */
export interface EgressOptions {
  /** File of the network namespace that leads outside; undefined for this process's own. */
  readonly namespace?: string | undefined;
  /** IPv4 addresses of name servers; undefined for those of this machine. */
  readonly resolvers?: readonly string[] | undefined;
  /** File of the program for rules that name hosts. */
  readonly program: string;
}

export interface EgressSupport {
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
  readonly check: EngineCheck;
}

const NAME = "internet";

/**
 * Finds it at the first call, and again once a program, a name server, the default route or the setting of
 * forwarding is another one.
 * What was found once stays where nothing is found later: a machine without a network for a while has
 * one again.
 */
export function rememberEgress(
  find: () => Promise<EgressSupport>,
  readFacts: () => string = readNetworkFacts,
): (freshness: "cached" | "fresh") => Promise<EgressSupport> {
  let facts: string | undefined;
  let known: Promise<EgressSupport> | undefined;
  let latest: HostNetwork | undefined;
  let changes = 0;
  /** Containers keep it: they see the latest name servers too. */
  const follow = (first: HostNetwork): HostNetwork => ({
    ...first,
    get resolvers() {
      return (latest ?? first).resolvers;
    },
    get changes() {
      return changes;
    },
  });
  async function look(before: Promise<EgressSupport> | undefined): Promise<EgressSupport> {
    const last = await before?.catch(() => undefined);
    const { check, outside } = await find();
    if (outside === undefined) return { check, outside: last?.outside };
    latest = outside;
    changes += 1;
    return { check, outside: last?.outside ?? follow(outside) };
  }
  return async (freshness) => {
    const now = readFacts();
    if (known === undefined || freshness === "fresh" || now !== facts) known = look(known);
    facts = now;
    try {
      return await known;
    } catch (error) {
      facts = undefined;
      throw error;
    }
  };
}

/** What is looked at, as a text that costs next to nothing to read. */
function readNetworkFacts(): string {
  const routes = (readKernelFile("/proc/self/net/route") ?? "").split("\n");
  const defaults = routes
    .map((line) => line.split("\t"))
    .filter(([, target]) => target === ANYWHERE)
    .map(([link, , gateway]) => [link, gateway]);
  const programs = [...PROGRAMS, UPLINK_PROGRAM].map((name) => findProgram(name));
  const resolvers = RESOLVER_FILES.map((path) => readKernelFile(path));
  const forwards = readKernelFile("/proc/sys/net/ipv4/ip_forward");
  return JSON.stringify([programs, canWrite(TUNNEL), resolvers, defaults, forwards]);
}

/** Looks at programs, route and name servers, and tries the rules in a namespace that ends at once. */
export async function findEgress(
  options: EgressOptions | undefined,
  perlDirectory: string,
): Promise<EgressSupport> {
  if (options === undefined) {
    return none("sandboxes have loopback alone, as configured (--egress off)");
  }
  const programs = isRootless() ? [...PROGRAMS, UPLINK_PROGRAM] : PROGRAMS;
  const missing = programs.filter((name) => findProgram(name) === undefined);
  if (missing.length > 0) {
    return none(`sandboxes have loopback alone: no ${missing.join(", ")}`, installCommand());
  }
  const lack = isRootless() ? await findLack(options) : undefined;
  if (lack !== undefined) return none(`sandboxes have loopback alone: ${lack.detail}`, lack.remedy);
  try {
    const link = await defaultLink(options.namespace);
    if (link === undefined) return none("sandboxes have loopback alone: no default route");
    const outside = {
      path: options.namespace,
      program: options.program,
      perlDirectory,
      resolvers: options.resolvers ?? (await readResolvers()),
      changes: 0,
    };
    const [firewall] = await Promise.all([
      // An ordinary user's packets are the machine's own; what is not known is not told.
      isRootless() ? undefined : findFirewall(outside.path).catch(() => undefined),
      tryRules(),
      isRootless() ? tryUserRouter(outside) : undefined,
    ]);
    return describe({ link, outside, firewall });
  } catch (error) {
    const detail = quoteUntrusted(errorText(error));
    return none(
      `sandboxes have loopback alone: ${detail}`,
      "see docs/security.md, Changes to the machine's network",
    );
  }
}

function describe(found: {
  readonly link: string;
  readonly outside: HostNetwork;
  readonly firewall: Firewall | undefined;
}): EgressSupport {
  const { link, outside, firewall } = found;
  const { resolvers } = outside;
  if (firewall !== undefined) {
    const detail = `through ${link}, where a firewall drops what it has no rule for: ${firewall.name}`;
    const { remedy } = firewall;
    return { outside, check: { name: NAME, outcome: "warning", detail, remedy } };
  }
  const way = isRootless() ? `${UPLINK_PROGRAM} and ${link}` : link;
  if (resolvers.length > 0) {
    const detail = `through ${way}, name servers ${resolvers.join(", ")}`;
    return { outside, check: { name: NAME, outcome: "ok", detail } };
  }
  const detail = `through ${way}, addresses only: this machine names no other name server`;
  const remedy = "name one with --dns";
  return { outside, check: { name: NAME, outcome: "warning", detail, remedy } };
}

function none(detail: string, remedy?: string): EgressSupport {
  const check: EngineCheck = { name: NAME, outcome: "warning", detail };
  return { outside: undefined, check: remedy === undefined ? check : { ...check, remedy } };
}

/** What only root can give to an ordinary user. */
async function findLack({
  namespace,
}: EgressOptions): Promise<{ readonly detail: string; readonly remedy: string } | undefined> {
  if (namespace !== undefined) {
    return { detail: "only root may enter a network namespace", remedy: "use --egress on" };
  }
  try {
    const file = await open(TUNNEL, "r+");
    await file.close();
    return undefined;
  } catch (error) {
    const code = causeCode(error);
    if (code === "EACCES" || code === "EPERM") {
      return { detail: `no access to ${TUNNEL}`, remedy: `sudo chmod 0666 ${TUNNEL}` };
    }
    return { detail: `no ${TUNNEL}: ${errorText(error)}`, remedy: "sudo modprobe tun" };
  }
}

async function tryRules(): Promise<void> {
  const uplink = { slot: 0, resolvers: ["192.0.2.1"], hosts: ["203.0.113.1"] };
  const rules = [
    routerRules(uplink),
    senderRules(0, { allow: ["192.0.2.0/24"], deny: ["0.0.0.0/0"], domains: ["*"] }),
    uplinkRules(uplink),
  ];
  const links = "link add name one type veth peer name other\n";
  await makeNetwork(undefined, { rules: rules.join(""), links });
}

/** A name server on this machine itself is a listener of the host, which no sandbox may reach. */
async function readResolvers(): Promise<string[]> {
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? []),
  );
  for (const path of RESOLVER_FILES) {
    const text = (await readIfThere(path)) ?? "";
    const named = [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)].map((match) => match[1] ?? "");
    const usable = named.filter(
      (address) => isIPv4(address) && !address.startsWith("127.") && !own.has(address),
    );
    if (usable.length > 0) return usable.slice(0, MAX_RESOLVERS);
  }
  return [];
}
