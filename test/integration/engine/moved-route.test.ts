/** A machine whose default route moves to another link, or whose name servers change, while it has routers. */

import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { routersOf } from "../../../src/engine/network/router-record.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { closeUplink, openUplink } from "../../../src/engine/network/uplink.ts";
import {
  EVERYTHING,
  makeNetwork,
  startConnectable,
  within,
} from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Of each link that leads outside: whether it forwards, and whether it does for others. */
async function forwardingOf(path: string) {
  const rules = await within(path, "nft list ruleset");
  const read = async (link: string) => {
    const isOn = (await within(path, `cat /proc/sys/net/ipv4/conf/${link}/forwarding`)).trim();
    const isOwn = new RegExp(`iifname "${link}" oifname != "sbm\\*" jump others`).test(rules);
    return `${isOn === "1" ? "on" : "off"}${isOwn ? " for routers" : ""}`;
  };
  return { one: await read("one"), two: await read("two") };
}

/** The default route is by the first. */
const TWO_LINKS = `sysctl -q net.ipv4.ip_forward=0
ip link add one type veth peer name far1 && ip link set one up && ip addr add 192.0.2.1/24 dev one
ip link add two type veth peer name far2 && ip link set two up && ip addr add 198.51.100.1/24 dev two
ip link set far1 up && ip link set far2 up && ip route add default via 192.0.2.2`;
const MOVE = "ip route replace default via 198.51.100.2";

const uplink = (slot: number) => ({ slot, resolvers: [], hosts: [] });

test("no link forwards for others once the default route has moved, and none does at the end", async () => {
  await using folder = await makeTempFolder();
  await using outside = await makeNetwork(join(folder.path, "outside"));
  await using router = await makeNetwork(join(folder.path, "router"));
  await using other = await makeNetwork(join(folder.path, "other"));
  await within(outside.path, TWO_LINKS);
  await openUplink(outside.path, uplink(1), router.path);
  const before = await forwardingOf(outside.path);
  await within(outside.path, MOVE);
  await openUplink(outside.path, uplink(2), other.path);
  const moved = await forwardingOf(outside.path);
  for (const slot of [1, 2]) await closeUplink(outside.path, slot);
  expect({ before, moved, after: await forwardingOf(outside.path) }).toEqual({
    before: { one: "on for routers", two: "off" },
    moved: { one: "on for routers", two: "on for routers" },
    after: { one: "off", two: "off" },
  });
});

/** Takes every order, and writes down what it was told. */
const program = (log: string) => `import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) {
  appendFileSync(${JSON.stringify(log)}, line + "\\n");
  process.stdout.write("ok\\n");
}`;

/** What the program for hostnames was told: its name servers, and the names of sandboxes. */
async function toldTo(log: string): Promise<unknown[]> {
  const lines = (await readFile(log, "utf8")).trim().split("\n");
  return lines.map((line) => {
    const { resolvers, domains } = JSON.parse(line);
    return resolvers ?? domains;
  });
}

test("sandboxes ask the name servers of now once another one is connected", async () => {
  await using folder = await makeTempFolder();
  await using network = await makeNetwork(join(folder.path, "outside"));
  await within(network.path, TWO_LINKS);
  await chmod(folder.path, 0o755);
  const log = join(folder.path, "log");
  await writeFile(log, "");
  await chmod(log, 0o666);
  await writeFile(join(folder.path, "program"), program(log));
  const owner = join(folder.path, "s");
  await mkdir(owner);
  await using first = await startConnectable(join(owner, "i1"));
  await using second = await startConnectable(join(owner, "i2"));
  const place = { path: network.path, program: join(folder.path, "program") };
  const outside = {
    ...place,
    perlDirectory: PERL_DIRECTORY,
    resolvers: ["192.0.2.53"],
    changes: 1,
  };
  const routers = createRouters(PERL_DIRECTORY);
  await using connected = new AsyncDisposableStack();
  for (const { directory } of [first, second]) {
    connected.defer(async () => routers.disconnect(directory));
  }
  await routers.setEgress({ ...first, outside }, { ...EVERYTHING, domains: ["allowed.test"] });
  await within(network.path, MOVE);
  const resolvers = ["198.51.100.53", "198.51.100.54"];
  await routers.setEgress(
    { ...second, outside: { ...outside, resolvers, changes: 2 } },
    EVERYTHING,
  );
  const [router] = await routersOf(owner);
  const map = await within(router?.path ?? "", "nft list map inet sandboxes resolvers");
  const rules = await within(network.path, "nft list ruleset");
  const found = {
    pairs: [...map.matchAll(/198\.19\.255\.(\d+) : ([\d.]+)/g)].map(([, last, to]) => [last, to]),
    passed: [...rules.matchAll(/ip daddr ([\d.]+) meta l4proto/g)].map(([, address]) => address),
    forwarding: (await forwardingOf(network.path)).two,
    kept: router?.resolvers,
  };
  // The program had its first names at its start and by the order that started it.
  await expect.poll(async () => toldTo(log)).toHaveLength(5);
  const told = await toldTo(log);
  const names = [["allowed.test"]];
  expect({ ...found, told }).toEqual({
    pairs: [
      ["252", "198.51.100.53"],
      ["253", "198.51.100.54"],
      ["254", "198.51.100.53"],
    ],
    passed: resolvers,
    forwarding: "on for routers",
    kept: resolvers,
    told: [["192.0.2.53"], ...names, ...names, resolvers, ...names],
  });
});

test.each([
  ["halves of all addresses", "ip route add 0.0.0.0/1 dev two && ip route add 128.0.0.0/1 dev two"],
  ["a rule", "ip route add default dev two table 51820 && ip rule add not fwmark 1 table 51820"],
])("the link of a private network that takes all by %s forwards", async (_name, command) => {
  await using folder = await makeTempFolder();
  await using outside = await makeNetwork(join(folder.path, "outside"));
  await using router = await makeNetwork(join(folder.path, "router"));
  await within(outside.path, `${TWO_LINKS}\n${command}`);
  await openUplink(outside.path, uplink(1), router.path);
  const found = await forwardingOf(outside.path);
  await closeUplink(outside.path, 1);
  expect(found).toEqual({ one: "off", two: "on for routers" });
});
