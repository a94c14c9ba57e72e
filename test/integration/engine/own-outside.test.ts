/** Routers that lead to the namespace of their service, as by default: what is made, and by how many programs. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { EVERYTHING, startConnectable, within } from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROUTERS = join(import.meta.dirname, "../../../src/engine/network/router.ts");

/** A machine of its own for the service. */
const MACHINE = `ip link add one type veth peer name two && ip addr add 192.0.2.1/24 dev one
ip link set one up && ip link set two up && ip route add default via 192.0.2.2 && exec "$@"`;

/** Connects two containers and takes them away; says after each step how many programs it started. */
const SERVICE = `
import { execFileSync } from "node:child_process";
import { channel } from "node:diagnostics_channel";
const [routersPath, perlDirectory, targets, egress] = process.argv.slice(1);
const { createRouters } = await import(routersPath);
const routers = createRouters(perlDirectory);
let starts = 0;
channel("child_process").subscribe(() => (starts += 1));
const outside = { program: "/nonexistent", perlDirectory, resolvers: ["192.0.2.53"], changes: 0 };
const [first, second] = JSON.parse(targets).map((target) => ({ ...target, outside }));
const LOOK = "nft list tables; ip rule show iif one; cat /proc/sys/net/ipv4/conf/one/forwarding";
const sh = (script) => execFileSync("sh", ["-c", script], { encoding: "utf8" });
const found = [];
const note = async (work) => {
  starts = 0;
  await work;
  found.push({ starts, state: sh(LOOK) });
};
await note(routers.setEgress(first, JSON.parse(egress)));
await note(routers.setEgress(second, JSON.parse(egress)));
await note(routers.disconnect(second.directory));
await note(routers.disconnect(first.directory));
console.log(JSON.stringify(found));
`;

test("a router is made, kept and removed by few programs, and leaves nothing", async () => {
  await using folder = await makeTempFolder();
  const owner = join(folder.path, "s");
  await mkdir(owner);
  await using first = await startConnectable(join(owner, "i1"));
  await using second = await startConnectable(join(owner, "i2"));
  const targets = [first, second].map(({ directory, record }) => ({ directory, record }));
  const words = [ROUTERS, PERL_DIRECTORY, JSON.stringify(targets), JSON.stringify(EVERYTHING)];
  const node = [process.execPath, "--input-type=module", "--eval", SERVICE, ...words];
  const said = await runProgram(["unshare", "--net", "sh", "-c", MACHINE, "sh", ...node]);
  const open = expect.stringMatching(
    /^table inet sandbox_mcp_\d+\ntable inet sandbox_mcp_forwarding\n198:.* iif one lookup .*\n1\n$/,
  );
  expect(JSON.parse(said)).toEqual([
    { starts: 6, state: open },
    { starts: 1, state: open },
    { starts: 2, state: open },
    { starts: 6, state: "0\n" },
  ]);
  const inside = `/proc/${first.record.pid}/ns/net`;
  expect(await within(inside, "ip -brief link show type veth")).toBe("");
});
