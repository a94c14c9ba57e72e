/** A machine whose default route moves to another link while it forwards for routers. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { closeUplink, openUplink } from "../../../src/engine/network/uplink.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

async function makeNamespace(path: string) {
  await writeFile(path, "");
  await runProgram(["unshare", `--net=${path}`, "true"]);
  return { path, [Symbol.asyncDispose]: async () => void (await runProgram(["umount", path])) };
}

async function within(path: string, command: string): Promise<string> {
  return runProgram(["nsenter", `--net=${path}`, "sh", "-c", command]);
}

/** Of each link that leads outside: whether it forwards, and whether it does for others. */
async function forwardingOf(path: string) {
  const rules = await within(path, "nft list ruleset");
  const read = async (link: string) => {
    const isOn = (await within(path, `cat /proc/sys/net/ipv4/conf/${link}/forwarding`)).trim();
    const isOwn = new RegExp(`iifname "${link}" oifname != "sbm\\*" drop`).test(rules);
    return `${isOn === "1" ? "on" : "off"}${isOwn ? " for routers" : ""}`;
  };
  return { one: await read("one"), two: await read("two") };
}

const uplink = (slot: number) => ({ slot, resolvers: [], hosts: [] });

test("no link forwards for others once the default route has moved, and none does at the end", async () => {
  await using folder = await makeTempFolder();
  await using outside = await makeNamespace(join(folder.path, "outside"));
  await using router = await makeNamespace(join(folder.path, "router"));
  await using other = await makeNamespace(join(folder.path, "other"));
  await within(
    outside.path,
    `sysctl -q net.ipv4.ip_forward=0
ip link add one type veth peer name far1 && ip link set one up && ip addr add 192.0.2.1/24 dev one
ip link add two type veth peer name far2 && ip link set two up && ip addr add 198.51.100.1/24 dev two
ip link set far1 up && ip link set far2 up && ip route add default via 192.0.2.2`,
  );
  await openUplink(outside.path, uplink(1), router.path);
  const before = await forwardingOf(outside.path);
  await within(outside.path, "ip route replace default via 198.51.100.2");
  await openUplink(outside.path, uplink(2), other.path);
  const moved = await forwardingOf(outside.path);
  for (const slot of [1, 2]) await closeUplink(outside.path, slot);
  expect({ before, moved, after: await forwardingOf(outside.path) }).toEqual({
    before: { one: "on for routers", two: "off" },
    moved: { one: "on for routers", two: "on for routers" },
    after: { one: "off", two: "off" },
  });
});
