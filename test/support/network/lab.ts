/**
 * A small internet of the test's own: a namespace that stands for the machine with its listeners,
 * and one with a public host, a private one, a name server and a metadata service behind it.
 * Nothing in it leads to a real network.
 */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { endChild } from "../end-child.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { makeCertificate, type TestCertificate } from "./certificate.ts";

const run = promisify(execFile);

/** Addresses for documentation (RFC 5737), and those that must stay out of reach. */
export const LAB = {
  machine: "203.0.113.1",
  publicHost: "203.0.113.10",
  otherHost: "198.51.100.7",
  nameServer: "203.0.113.53",
  unreachable: [
    "10.1.2.3",
    "172.16.5.4",
    "192.168.7.7",
    "100.64.0.9",
    "100.100.100.200",
    "169.254.169.254",
    "192.0.0.8",
    "192.0.0.192",
    "168.63.129.16",
  ],
  port: 8080,
  /** What listens on the machine: remote login, and where the service itself would. */
  greetings: [22, 3490],
  /** An address of the machine on a bridge, as container engines have it. */
  bridge: "172.17.0.1",
} as const;

const PUBLIC = [LAB.publicHost, LAB.otherHost, LAB.nameServer];

/** What the name server says, one answer after the other; it sends all other names to `publicHost`. */
const NAMES = {
  "allowed.test": [[LAB.publicHost]],
  "other.test": [[LAB.otherHost]],
  "xn--bcher-kva.test": [[LAB.otherHost]],
  "moving.test": [[LAB.publicHost], [LAB.otherHost]],
  "mixed.test": [["169.254.169.254", LAB.otherHost, "10.1.2.3"]],
  "rebind.test": [[LAB.publicHost], ["10.1.2.3"]],
  "turning.test": [[LAB.publicHost], ["10.1.2.3"]],
  "metadata.test": [["169.254.169.254"]],
  "machine.test": [[LAB.machine]],
};

/**
 * What is counted: each packet but those of connections whose first one was counted. A sandbox with
 * internet access may send such a one at any time: gVisor's keep-alive goes on for a minute after the
 * end of the program.
 */
const COUNTED = "ct state new,invalid,untracked counter";
/**
 * When slirp4netns ends, its kernel ends the connections that it has kept of sandboxes, some later than
 * connections are tracked; whoever has begun one was counted.
 */
const IGNORES_ENDS = "nft add rule inet count come tcp flags & (fin | rst) != 0 return";
/** After connections are tracked. */
const COUNTING = "priority mangle ; }";

const SERVICES = resolve(import.meta.dirname, "lab-services.ts");

export interface Lab extends AsyncDisposable {
  /** File of the namespace that stands for the machine. */
  readonly namespace: string;
  /** Packets that came from sandboxes to the far side, whatever their kind (`COUNTED`). */
  received(): Promise<number>;
  /** All packets that came there for no public host. */
  strayed(): Promise<number>;
  /** Runs a program in the namespace of the machine. */
  onMachine(command: string): Promise<string>;
  /** Packets that came from routers to the machine, whatever became of them (`COUNTED`). */
  sent(): Promise<number>;
  /** Does something while the machine has no rules at all, as after somebody flushed them. */
  withoutRules(work: () => Promise<void>): Promise<void>;
  /** What of ours is on the machine: links, rules, forwarding. */
  traces(): Promise<readonly string[]>;
}

/**
 * Makes the lab; needs root, iproute2 and nftables. Where the routers are those of an ordinary user,
 * what the user's programs send counts as theirs.
 */
export async function startLab(user?: number): Promise<Lab> {
  await using parts = new AsyncDisposableStack();
  const folder = parts.use(await makeTempFolder());
  const machine = parts.use(await makeNamespace(join(folder.path, "machine"))).path;
  const far = parts.use(await makeNamespace(join(folder.path, "far"))).path;
  await within(machine, [
    "ip link set lo up",
    `ip link add wan0 type veth peer name far0 netns ${far}`,
    `ip addr add ${LAB.machine}/24 dev wan0`,
    "ip link set wan0 up",
    `ip route add default via ${LAB.publicHost}`,
    `ip addr add ${LAB.bridge}/16 dev lo`,
    "nft add table inet count",
    ...(user === undefined
      ? [
          `nft add chain inet count come { type filter hook prerouting ${COUNTING}`,
          `nft add rule inet count come iifname "sbm*" ${COUNTED}`,
        ]
      : [
          `nft add chain inet count come { type filter hook output ${COUNTING}`,
          `nft add rule inet count come oifname wan0 meta skuid ${user} ${COUNTED}`,
        ]),
  ]);
  const addresses = [...PUBLIC, ...LAB.unreachable];
  await within(far, [
    "ip link set lo up",
    "ip link set far0 up",
    ...addresses.map((address) => `ip addr add ${address}/24 dev far0`),
    "nft add table inet count",
    `nft add chain inet count come { type filter hook prerouting ${COUNTING}`,
    ...(user === undefined ? [] : [IGNORES_ENDS]),
    `nft add rule inet count come iifname far0 meta protocol ip ${COUNTED}`,
    "nft add chain inet count stray { type filter hook prerouting priority raw ; }",
    `nft add rule inet count stray iifname far0 meta protocol ip ip daddr != { ${PUBLIC.join(" , ")} } counter`,
  ]);
  const tls = parts.use(await makeCertificate([...Object.keys(NAMES), "*.wild.test"]));
  parts.use(await startServices(machine, "machine", { nameServer: "0.0.0.0" }));
  parts.use(await startServices(far, "far", { nameServer: LAB.nameServer, tls }));
  const ending = parts.move();
  return {
    namespace: machine,
    onMachine: async (command) => within(machine, [command]),
    received: async () => readCounter(far, "come"),
    strayed: async () => readCounter(far, "stray"),
    sent: async () => readCounter(machine, "come"),
    async withoutRules(work) {
      const saved = join(folder.path, "rules");
      await writeFile(saved, await within(machine, ["nft list ruleset"]));
      await within(machine, ["nft flush ruleset"]);
      try {
        await work();
      } finally {
        await within(machine, [`nft -f ${saved}`]);
      }
    },
    traces: async () => {
      const forwarding = await within(machine, [
        "grep -r . /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf --include=*forward*",
      ]);
      return [
        await within(machine, ["ip -4 -o route", "ip -o -br link"]),
        await listRules(machine),
        forwarding.split("\n").toSorted().join("\n"),
      ];
    },
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}

async function readCounter(namespace: string, chain: string): Promise<number> {
  const text = await within(namespace, [`nft list chain inet count ${chain}`]);
  return Number(/counter packets (\d+)/.exec(text)?.[1]);
}

/** Rules without what they have counted; tables in the order of their names, because a service may set one anew. */
async function listRules(namespace: string): Promise<string> {
  const rules = await within(namespace, ["nft --stateless list ruleset"]);
  return rules
    .split(/^(?=table )/m)
    .toSorted()
    .join("");
}

/** Runs commands in a namespace; returns what they print. */
async function within(namespace: string, commands: readonly string[]): Promise<string> {
  const prints: string[] = [];
  for (const command of commands) {
    prints.push((await run("nsenter", [`--net=${namespace}`, ...command.split(" ")])).stdout);
  }
  return prints.join("");
}

async function makeNamespace(path: string): Promise<AsyncDisposable & { readonly path: string }> {
  await writeFile(path, "");
  await run("unshare", [`--net=${path}`, "true"]);
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      await run("umount", [path]);
      await rm(path);
    },
  };
}

async function startServices(
  namespace: string,
  role: "machine" | "far",
  { nameServer, tls }: { readonly nameServer: string; readonly tls?: TestCertificate },
): Promise<AsyncDisposable> {
  const order = {
    role,
    port: LAB.port,
    greetings: role === "machine" ? LAB.greetings : [53, 853],
    ...(tls !== undefined && { tls: { certificate: tls.certificatePath, key: tls.keyPath } }),
    nameServer,
    names: NAMES,
    elsewhere: LAB.publicHost,
  };
  const words = [process.execPath, SERVICES, JSON.stringify(order)];
  const child = spawn("nsenter", [`--net=${namespace}`, ...words], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  return {
    [Symbol.asyncDispose]: () => endChild(child),
  };
}
