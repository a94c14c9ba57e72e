/** Ways out of a sandbox that must lead nowhere, whatever its rules say. */

import { describe, expect, test } from "vitest";
import { LAB } from "../../support/network/lab.ts";
import {
  addressOf,
  ALL,
  answered,
  attack,
  disarm,
  fetchFrom,
  OPEN,
  type Attempt,
  type Field,
  type OwnSandbox,
} from "./ground.ts";

/** R15 asks for 60; `NETWORK_SECONDS=60` gives them. */
export const OFF_SECONDS = Number(process.env["NETWORK_SECONDS"] ?? "2");
const PRIVATE = ["10.1.2.3", "172.16.5.4", "192.168.7.7", "100.64.0.9", "192.0.0.8"];
const METADATA = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"];
/** Rules that ask for everything, also for what no rule may open. */
const GREEDY = {
  network: {
    allowOut: [ALL, "169.254.0.0/16", "10.0.0.0/8", "fd00::/8", ...METADATA, ...PRIVATE],
  },
};

/** Sends past the gateway, which needs no right. */
const PAST_GATEWAY = `
import socket
channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
channel.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
channel.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
for number in range(9):
    channel.sendto(b"x", (f"10.9.8.{number}", 9))
`;

export function describeAttacks(ground: () => Field, offSeconds: number): void {
  describe("ways out", () => {
    test("E36 no listener of the host answers, by none of its addresses", async () => {
      const { sandbox, lab } = ground();
      const before = await lab.strayed();
      expect(answered(await attack(sandbox, await hostAttempts(ground())))).toEqual([]);
      expect(await lab.strayed()).toBe(before);
    });

    test("E36 nor once somebody flushed the rules of the host", async () => {
      const { sandbox, lab } = ground();
      // Nor is anybody there to answer names.
      const attempts = (await hostAttempts(ground())).filter(([, host]) => !host.endsWith(".test"));
      await lab.withoutRules(async () => {
        expect(answered(await attack(sandbox, attempts))).toEqual([]);
      });
      expect(await fetchFrom(sandbox, OPEN)).toContain("far");
    });

    test("E37 no metadata service answers, by address or name, even where allowOut names it", async () => {
      await using greedy = await ground().create(GREEDY);
      const before = await ground().lab.strayed();
      for (const target of [ground().sandbox, greedy]) {
        expect(answered(await attack(target, METADATA_ATTEMPTS))).toEqual(["name metadata.test 0"]);
      }
      expect(await ground().lab.strayed()).toBe(before);
    });

    test("E38 no other sandbox and no private, shared, local or multicast address answers", async () => {
      await using neighbour = await ground().create();
      const attempts = [...NEIGHBOURHOOD, ...(await sandboxAttempts(neighbour))];
      await using greedy = await ground().create(GREEDY);
      const before = await ground().lab.strayed();
      // Its first answer is a public host; every later one is not.
      await attack(greedy, [["name", "rebind.test", 0]]);
      for (const target of [ground().sandbox, greedy]) {
        const found = answered(await attack(target, attempts));
        expect(found.filter((name) => !name.startsWith("name "))).toEqual([]);
      }
      expect(await ground().lab.strayed()).toBe(before);
    });

    test("no program asks the link for addresses, of which the machine keeps 1,024", async () => {
      await using asking = await ground().create();
      const { stdout } = await asking.commands.run(
        `python3 -c '${PAST_GATEWAY}'; cat /proc/net/arp`,
      );
      expect(stdout.match(/^10\.9\./gm) ?? []).toEqual([]);
    });

    const limit = { timeout: (offSeconds + 180) * 1_000 };
    test("E39 without internet access not one packet leaves under attack", limit, async () => {
      const { lab } = ground();
      const halves = ["0.0.0.0/1", "128.0.0.0/1"];
      const wishes = [
        { allowInternetAccess: false },
        { network: { denyOut: [ALL] } },
        { network: { denyOut: halves } },
      ];
      for (const [index, wish] of wishes.entries()) {
        await using closed = await ground().create(wish);
        const seconds = index === 0 ? offSeconds : 0;
        const before = { received: await lab.received(), sent: await lab.sent() };
        expect(answered(await attack(closed, OFF_ATTEMPTS, seconds))).toEqual([]);
        expect({ received: await lab.received(), sent: await lab.sent() }).toEqual(before);
      }
    });
  });
}

/** The last of all: from here on the service's router lets everything through. */
export function describeAttacksControl(ground: () => Field): void {
  describe("without the defence", () => {
    test("E36 E37 E38 E39 succeed", async () => {
      const { lab, sandbox } = ground();
      const before = { received: await lab.received(), sent: await lab.sent() };
      // E39: what a sandbox with internet access sends is counted in both places.
      expect(answered(await attack(sandbox, OFF_ATTEMPTS))).toEqual(
        OFF_ATTEMPTS.map((entry) => entry.join(" ")).filter((name) => !name.startsWith("raw ")),
      );
      expect(await lab.received()).toBeGreaterThan(before.received);
      expect(await lab.sent()).toBeGreaterThan(before.sent);
      await using neighbour = await ground().create();
      const peers = await sandboxAttempts(neighbour);
      const hosts = await hostAttempts(ground());
      await disarm(ground());
      // E36, E37, E38: over IPv4; IPv6 and abstract sockets end at the namespace itself.
      const reached = answered(
        await attack(sandbox, [...hosts, ...METADATA_ATTEMPTS, ...NEIGHBOURHOOD, ...peers]),
      );
      for (const port of LAB.greetings) {
        for (const host of [LAB.machine, LAB.bridge])
          expect(reached).toContain(`tcp ${host} ${port}`);
      }
      for (const host of METADATA) expect(reached).toContain(`tcp ${host} ${LAB.port}`);
      for (const host of PRIVATE) expect(reached).toContain(`tcp ${host} ${LAB.port}`);
      expect(reached).toContain("literal 0251.0376.0251.0376 8080");
      expect(reached).toContain("literal 167838211 8080");
      expect(reached).toContain("tcp rebind.test 8080");
      expect(reached).toContain(peers[0]?.join(" "));
      expect(await lab.strayed()).toBeGreaterThan(0);
    });
  });
}

/** Every listener that a host has, by every address that it may be known by. */
async function hostAttempts({ lab, sandbox }: Field): Promise<Attempt[]> {
  const text = await lab.onMachine("ip -4 -o addr");
  const own = [...text.matchAll(/inet ([\d.]+)/g)].map((match) => match[1] ?? "");
  expect(own).toContain(LAB.machine);
  expect(own).toContain(LAB.bridge);
  const servers = await inNamespace(sandbox);
  const hosts = [
    ...own,
    ...servers,
    "127.0.0.1",
    "0.0.0.0",
    "::1",
    "::ffff:203.0.113.1",
    "fe80::1",
  ];
  const ports = [...LAB.greetings, LAB.port, 5300, 8000, 8443];
  return [
    ...hosts.flatMap((host) => [
      ...ports.map((port): Attempt => ["tcp", host, port]),
      ["udp", host, LAB.port] satisfies Attempt,
    ]),
    ["tcp", "machine.test", LAB.greetings[0]],
    ["abstract", "lab-machine", 0],
  ];
}

/** Addresses of the router that a sandbox is told. */
async function inNamespace(sandbox: Field["sandbox"]): Promise<string[]> {
  const { stdout } = await sandbox.commands.run("sed -n 's/^nameserver //p' /etc/resolv.conf");
  const servers = stdout.trim().split("\n");
  expect(servers[0]).toMatch(/^198\.19\./);
  return servers;
}

const METADATA_ATTEMPTS: readonly Attempt[] = [
  ...METADATA.flatMap((host): Attempt[] => [
    ["tcp", host, LAB.port],
    ["tcp", host, 80],
    ["udp", host, LAB.port],
    ["icmp", host, 0],
  ]),
  ["tcp", "fd00:ec2::254", 80],
  ["tcp", "metadata.test", LAB.port],
  ["name", "metadata.test", 0],
  ["literal", "0251.0376.0251.0376", LAB.port],
  ["literal", "2852039166", LAB.port],
  ["literal", "0xa9fea9fe", LAB.port],
];

const NEIGHBOURHOOD: readonly Attempt[] = [
  ...PRIVATE.flatMap((host): Attempt[] => [
    ["tcp", host, LAB.port],
    ["udp", host, LAB.port],
    ["icmp", host, 0],
  ]),
  ["tcp", "::ffff:10.1.2.3", LAB.port],
  ["tcp", "fd12:3456::1", LAB.port],
  ["tcp", "fe80::1%eth0", LAB.port],
  ["udp", "224.0.0.251", 5353],
  ["udp", "ff02::fb", 5353],
  ["udp", "255.255.255.255", LAB.port],
  // 10.1.2.3 in octal, and as one number.
  ["literal", "012.01.02.03", LAB.port],
  ["literal", "167838211", LAB.port],
  ["name", "rebind.test", 0],
  ["tcp", "rebind.test", LAB.port],
];

const OFF_ATTEMPTS: readonly Attempt[] = [
  ["tcp", LAB.publicHost, LAB.port],
  ["tcp", LAB.publicHost, 53],
  ["tcp", LAB.publicHost, 853],
  ["udp", LAB.publicHost, LAB.port],
  ["udp", LAB.nameServer, 53],
  ["icmp", LAB.publicHost, 0],
  ["raw", LAB.publicHost, 0],
  ["name", "other.test", 0],
];

/** A server in another sandbox, and ways to it. */
async function sandboxAttempts(neighbour: OwnSandbox): Promise<Attempt[]> {
  const address = await addressOf(neighbour);
  expect(address).toMatch(/^198\.18\./);
  await neighbour.commands.run("python3 -m http.server 8000", { background: true });
  await expect
    .poll(async () => answered(await attack(neighbour, [["tcp", address, 8000]])))
    .toHaveLength(1);
  return [
    ["tcp", address, 8000],
    ["icmp", address, 0],
  ];
}
