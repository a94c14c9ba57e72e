/** The link between a router and a container is made wherever their files lie. */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { makeNetwork as makeRouter } from "../../../src/engine/network/namespace.ts";
import { routerParts } from "../../../src/engine/network/router-links.ts";
import { connectSender } from "../../../src/engine/network/senders.ts";
import { EVERYTHING, makeNetwork, within } from "../../support/network/router-parts.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** A router without an outside, and a container; the home has a space and a hash in its path. */
async function openParts() {
  await using parts = new AsyncDisposableStack();
  const folder = parts.use(await makeTempFolder());
  const home = join(folder.path, "a #b");
  await mkdir(home);
  const router = join(home, "router");
  await writeFile(router, "");
  await makeRouter(router, routerParts({ slot: 1, resolvers: [], hosts: [] }));
  parts.defer(async () => void (await within("/proc/self/ns/net", `umount '${router}'`)));
  const network = parts.use(await makeNetwork(join(home, "network"))).path;
  const open = parts.move();
  return {
    sender: { router, network, slot: 1, resolverCount: 1 },
    /** Its address, its way to the internet, and how many links have the name of its link. */
    look: async () =>
      within(
        network,
        "ip -4 -brief addr show dev eth0; ip route get 192.0.2.1 | head -n 1; ip link | grep -c eth0",
      ),
    [Symbol.asyncDispose]: async () => open.disposeAsync(),
  };
}

const CONNECTED =
  /^eth0@if\d+ +UP +198\.18\.0\.2\/32 \n192\.0\.2\.1 via 198\.19\.255\.252 .*\n1\n$/;

test("a home may have a space and a hash in its path", async () => {
  await using net = await openParts();
  await connectSender(net.sender, EVERYTHING);
  expect(await net.look()).toMatch(CONNECTED);
});

test("a link that has the name of the container's link goes, as that to a router that has ended", async () => {
  await using net = await openParts();
  await within(net.sender.network, "ip link add eth0 type veth peer name old");
  await connectSender(net.sender, EVERYTHING);
  expect(await net.look()).toMatch(CONNECTED);
});

test("a link that a kill left half made is made anew", async () => {
  await using net = await openParts();
  const { router, network } = net.sender;
  const half = `ip link add name s1 type veth peer name eth0 netns ./network && ip link set dev s1 up`;
  await within(router, `cd '${dirname(network)}' && ${half}`);
  await connectSender(net.sender, EVERYTHING);
  expect(await net.look()).toMatch(CONNECTED);
});

test("other rules change nothing of a link that is there", async () => {
  await using net = await openParts();
  await connectSender(net.sender, EVERYTHING);
  const before = await net.look();
  await connectSender(net.sender, { ...EVERYTHING, deny: ["192.0.2.0/24"] });
  expect(before).toMatch(CONNECTED);
  expect(await net.look()).toBe(before);
  const denied = await within(net.sender.router, "nft list set inet sandboxes deny1");
  expect(denied).toContain("192.0.2.0/24");
});

test("rules that nft refuses leave the link of a container as it is, and say why", async () => {
  await using net = await openParts();
  await connectSender(net.sender, EVERYTHING);
  const wrong = { ...EVERYTHING, deny: ["999.0.0.0/8"] };
  await expect(connectSender(net.sender, wrong)).rejects.toThrow(/^nsenter: .*999\.0\.0\.0/);
  expect(await net.look()).toMatch(CONNECTED);
});

test("a link whose other end cannot be set up does not stay as one that is there", async () => {
  await using net = await openParts();
  await within(net.sender.network, "ip link set lo up && ip route add 198.19.255.252 dev lo");
  await expect(connectSender(net.sender, EVERYTHING)).rejects.toThrow(/File exists/);
  await within(net.sender.network, "ip route del 198.19.255.252 dev lo");
  await connectSender(net.sender, EVERYTHING);
  expect(await net.look()).toMatch(CONNECTED);
});
