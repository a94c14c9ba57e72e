/** Another program of the machine that forwards too, such as a container engine, and the link outside. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { changeGuards } from "../../../src/engine/network/forward-guard.ts";
import { closeUplink, openUplink, renewUplink } from "../../../src/engine/network/uplink.ts";
import { endChild } from "../../support/end-child.ts";
import {
  BOX,
  FAR,
  isAnswered,
  LINK,
  openForwardingMachine as openMachine,
  UPLINK,
} from "../../support/network/forwarding-machine.ts";
import { makeNetwork, within } from "../../support/network/router-parts.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const OUTER = "/proc/sys/net/ipv4/conf/one/forwarding";

test("containers of a program that forwards later reach the network, and are reached", async () => {
  await using net = await openMachine();
  await openUplink(net.machine, UPLINK, net.router);
  await net.publish();
  const found = {
    out: await isAnswered({ from: net.box, by: net.far, to: FAR }),
    published: await isAnswered({ from: net.far, by: net.box, to: LINK, port: 8080 }),
    other: await isAnswered({ from: net.far, by: net.box, to: BOX }),
  };
  await closeUplink(net.machine, 1);
  expect({ ...found, forwards: await net.forwards() }).toEqual({
    out: true,
    published: true,
    other: false,
    forwards: "1",
  });
});

test("a machine that became a router forwards for all once its outside is looked at", async () => {
  await using net = await openMachine();
  await openUplink(net.machine, UPLINK, net.router);
  await within(net.machine, "sysctl -q net.ipv4.ip_forward=1");
  await renewUplink(net.machine, UPLINK);
  const reached = await isAnswered({ from: net.far, by: net.box, to: BOX });
  await closeUplink(net.machine, 1);
  expect({ reached, forwards: await net.forwards() }).toEqual({ reached: true, forwards: "1" });
});

test("forwarding that another program switched off is on again once the outside is looked at", async () => {
  await using net = await openMachine();
  await openUplink(net.machine, UPLINK, net.router);
  await within(net.machine, "sysctl -q net.ipv4.ip_forward=1 && sysctl -q net.ipv4.ip_forward=0");
  await renewUplink(net.machine, UPLINK);
  const link = await within(net.machine, "cat /proc/sys/net/ipv4/conf/sbm1/forwarding");
  const found = { outer: await net.forwards(), link: link.trim() };
  await closeUplink(net.machine, 1);
  expect({ ...found, after: await net.forwards() }).toEqual({ outer: "1", link: "1", after: "0" });
});

test("IPv6 is forwarded as before", async () => {
  await using net = await openMachine();
  await within(net.machine, "sysctl -q net.ipv6.conf.all.forwarding=1");
  const way = { from: net.far, by: net.box, to: "2001:db8:2::2" };
  const before = await isAnswered(way);
  await openUplink(net.machine, UPLINK, net.router);
  const after = await isAnswered(way);
  await closeUplink(net.machine, 1);
  expect({ before, after }).toEqual({ before: true, after: true });
});

test.for([
  { beside: "one that is missing alone", name: "two", fault: /^none$/ },
  { beside: "one that no record can name", name: "no/link", fault: /no\/link/ },
])("a record that another service has set, and $beside", async ({ name, fault }) => {
  await using net = await openMachine();
  const guard = async (...names: string[]) => {
    const guarded = names.map((link) => ({ name: link, isAlone: true }));
    const seen = { inTable: [], recorded: [] };
    await changeGuards(net.machine, seen, { guarded, links: [], forwards: true });
  };
  await guard("one");
  const found = await guard("one", name).then(() => "none", String);
  expect(found).toMatch(fault);
});

const GUARD = resolve(import.meta.dirname, "../../../src/engine/network/forward-guard.ts");
const BAD_RECORD = `
  import { changeGuards } from "${GUARD}";
  const guarded = [{ name: "no/link", isAlone: true }];
  const seen = { inTable: [], recorded: [] };
  await changeGuards(undefined, seen, { guarded, links: [], forwards: true });
`;

test("a fault of a record is told on a machine without grep", async () => {
  const hide = 'for path in $(type -ap grep); do mount --bind /dev/null "$path"; done; exec "$@"';
  const program = [process.execPath, "--input-type=module", "--eval", BAD_RECORD];
  const words = ["--mount", "--net", "bash", "-c", hide, "bash", ...program];
  const child = spawn("unshare", words, { stdio: ["ignore", "ignore", "pipe"] });
  expect(await text(child.stderr)).toContain("no/link");
});

/** Once the link outside forwards no more, a link of a router comes, and the link outside forwards again. */
const BEGINNER = `
import fcntl, os, socket, struct
setting = os.open("${OUTER}", os.O_RDWR)
print(flush=True)
while os.pread(setting, 1, 0) == b"1": pass
fcntl.ioctl(socket.socket(), 0x8923, struct.pack("16s16s", b"spare", b"sbm9"))
while True: os.pwrite(setting, b"1", 0)
`;

test("a service that begins by a guard which another one takes away at its end is guarded", async () => {
  await using net = await openMachine();
  await within(net.machine, "ip link add spare type veth peer name other");
  await openUplink(net.machine, UPLINK, net.router);
  const beginner = spawn("nsenter", [`--net=${net.machine}`, "python3", "-c", BEGINNER]);
  try {
    await once(beginner.stdout, "data");
    await closeUplink(net.machine, 1);
  } finally {
    await endChild(beginner);
  }
  const list = "nft list ruleset; ip rule show iif one";
  const begun = await within(net.machine, list);
  expect({ forwards: await net.forwards(), begun }).toEqual({
    forwards: "1",
    begun: expect.stringMatching(/iifname "one" oifname != "sbm\*" jump others[^]*iif one lookup/),
  });
  await closeUplink(net.machine, 9);
  expect({ forwards: await net.forwards(), left: await within(net.machine, list) }).toEqual({
    forwards: "0",
    left: "",
  });
});

const ROUNDS = 4;

test("services that begin and end at the same moments are guarded, and leave nothing", async () => {
  await using net = await openMachine();
  await using folder = await makeTempFolder();
  await using parts = new AsyncDisposableStack();
  const look = `nft list tables; ip rule; cat ${OUTER}`;
  const whole = /sandbox_mcp_forwarding\n[^]*iif one lookup [^]*\n1\n$/;
  const serve = async (slot: number) => {
    const router = parts.use(await makeNetwork(join(folder.path, String(slot)))).path;
    for (let round = 0; round < ROUNDS; round += 1) {
      await openUplink(net.machine, { ...UPLINK, slot }, router);
      // One that ends may have looked before this one began, and looks again.
      await expect.poll(async () => within(net.machine, look)).toMatch(whole);
      await closeUplink(net.machine, slot);
    }
  };
  await Promise.all([serve(1), serve(2), serve(3)]);
  const left = await within(net.machine, `nft list ruleset; ip rule show iif one; cat ${OUTER}`);
  expect(left).toBe("0\n");
});
