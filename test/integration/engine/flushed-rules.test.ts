/** A firewall of the machine that is loaded anew, with all rules of sandboxes' network gone. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { Logger } from "../../../src/common/log.ts";
import { routersOf } from "../../../src/engine/network/router-record.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { closeUplink, openUplink, renewUplink } from "../../../src/engine/network/uplink.ts";
import {
  BOX,
  FAR,
  isAnswered,
  openForwardingMachine,
  UPLINK,
} from "../../support/network/forwarding-machine.ts";
import {
  EVERYTHING,
  makeNetwork,
  startConnectable,
  within,
} from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const FORWARDING = "cat /proc/sys/net/ipv4/conf/one/forwarding";

test("forwarding of the link outside ends with the last router also after a flush of all rules", async () => {
  await using net = await openForwardingMachine();
  await openUplink(net.machine, UPLINK, net.router);
  await within(net.machine, "nft flush ruleset");
  await closeUplink(net.machine, 1);
  expect(await net.forwards()).toBe("0");
  expect(await within(net.machine, "ip rule show")).not.toContain("iif one");
});

test("the rules are whole again once the outside is looked at", async () => {
  await using net = await openForwardingMachine();
  await openUplink(net.machine, UPLINK, net.router);
  // The container of another program has a link that forwards.
  await within(net.machine, "echo 1 > /proc/sys/net/ipv4/conf/bridge/forwarding");
  const list = "nft list ruleset; ip rule show";
  const before = await within(net.machine, list);
  await within(net.machine, "nft flush ruleset");
  await renewUplink(net.machine, UPLINK);
  expect((await within(net.machine, list)).split("\n").toSorted()).toEqual(
    before.split("\n").toSorted(),
  );
  expect(await isAnswered({ from: net.far, by: net.box, to: BOX })).toBe(false);
  await closeUplink(net.machine, 1);
  expect(await within(net.machine, "nft list ruleset")).toBe("");
});

test("without its policy rule the link outside forwards for nobody else either", async () => {
  await using net = await openForwardingMachine();
  await openUplink(net.machine, UPLINK, net.router);
  await within(net.machine, "ip rule del pref 198");
  await within(net.machine, "echo 1 > /proc/sys/net/ipv4/conf/bridge/forwarding");
  expect(await isAnswered({ from: net.far, by: net.box, to: BOX })).toBe(false);
  await closeUplink(net.machine, 1);
  expect(await net.forwards()).toBe("0");
});

test("a machine that filters by the way back serves containers of others at once", async () => {
  await using net = await openForwardingMachine();
  await openUplink(net.machine, UPLINK, net.router);
  await within(net.machine, "echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter");
  await net.publish();
  expect(await isAnswered({ from: net.box, by: net.far, to: FAR })).toBe(true);
  await closeUplink(net.machine, 1);
});

test.for([{ isAdopted: false }, { isAdopted: true }])(
  "a service sets its rules again and tells it once (adopted: $isAdopted)",
  async ({ isAdopted }) => {
    await using folder = await makeTempFolder();
    await using namespace = await makeNetwork(join(folder.path, "outside"));
    await within(
      namespace.path,
      "ip link add one type veth peer name two && ip addr add 192.0.2.1/24 dev one && " +
        "ip link set one up && ip link set two up && ip route add default via 192.0.2.2",
    );
    const program = "/nonexistent";
    const resolvers: string[] = [];
    const parts = { program, perlDirectory: PERL_DIRECTORY, resolvers, changes: 0 };
    const outside = { ...namespace, ...parts };
    const owner = join(folder.path, "s");
    await mkdir(owner);
    await using one = await startConnectable(join(owner, "i1"));
    const lines: unknown[] = [];
    const note = (...words: unknown[]) => void lines.push(words);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what routers log with
    const log = { warn: note, error: note } as unknown as Logger;
    const first = createRouters(PERL_DIRECTORY, isAdopted ? undefined : log);
    // The process that is gone looks no more.
    if (isAdopted) vi.useFakeTimers({ toFake: ["setInterval"] });
    await first.setEgress({ ...one, outside }, EVERYTHING);
    vi.useRealTimers();
    const last = isAdopted ? createRouters(PERL_DIRECTORY, log) : first;
    const list = async () => within(namespace.path, "nft list tables");
    const before = await list();
    await within(namespace.path, "nft flush ruleset && ip addr add 198.51.100.7/32 dev one");
    if (isAdopted) await last.hasLost(one);
    await expect.poll(list).toBe(before);
    await expect.poll(() => lines).toHaveLength(1);
    expect(await within(namespace.path, FORWARDING)).toBe("1\n");
    const [router] = await routersOf(owner);
    // Also while the rules outside are gone, no container reaches an address that the machine has now.
    const refused = await within(router?.path ?? "", "nft list set inet sandboxes never");
    expect(refused).toMatch(/\b198\.51\.100\.7\b/);
    await last.disconnect(one.directory);
    expect({ rules: await list(), forwards: await within(namespace.path, FORWARDING) }).toEqual({
      rules: "",
      forwards: "0\n",
    });
  },
);
