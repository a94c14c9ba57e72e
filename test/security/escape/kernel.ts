/** E21, E22 and E31 to E35: system calls, socket families, calling conventions, the machine. */

import { expect, test } from "vitest";
import type { Container } from "../../../src/engine/engine.ts";
import { createSeccompProfile } from "../../../src/engine/oci/seccomp.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { attackLayers } from "../../support/hostile/attack-layer.ts";
import {
  attackCommand,
  parseOutcomes,
  type AttackRange,
  type Outcomes,
} from "../../support/hostile/attack-range.ts";
import { REFUSED_CALLS } from "../../support/hostile/refused-calls.ts";
import { attackUnconfined } from "../../support/hostile/unconfined.ts";
import { startWeakHost } from "../../support/hostile/weak-runtime.ts";
import { hasOwnKernel } from "../../support/runtimes.ts";
import { describeOwnNamespaces, expectOutcomes } from "./own-kernel.ts";

const USERS = ["root", "user"];
const FAMILIES = Array.from({ length: 46 }, (_, family) => family);
/** UNIX, INET, INET6 and NETLINK. */
const OPEN_FAMILIES = [1, 2, 10, 16];
const NETLINKS = Array.from({ length: 21 }, (_, index) => index + 1);
const PERSONALITIES = ["personality 0x1", "personality 0x40000", "personality 0x400000"];
const MACHINE = [
  "clock_settime",
  "adjtimex",
  "sethostname",
  "setdomainname",
  "reboot",
  "acct",
  "swapon",
  "syslog",
];
const isX64 = process.arch === "x64";

/** In a sandbox of the place(). */
export function describeKernel(place: () => AttackRange, runtime: string): void {
  test.for(USERS)("E21 no namespace is made by %s", async (user) => {
    const outcomes = await place().attack({ program: "kernel", id: "E21" }, user);
    expect(Object.keys(outcomes)).toHaveLength(23);
    const expected = Object.keys(outcomes).map((name) => [
      name,
      name.startsWith("clone3") ? "ENOSYS" : "EPERM",
    ]);
    expectOutcomes(place(), { id: "E21", user, outcomes }, Object.fromEntries(expected));
  });

  test.for(USERS)("E22 no namespace is joined by %s", async (user) => {
    const outcomes = await place().attack({ program: "kernel", id: "E22" }, user);
    expect(Object.keys(outcomes)).toHaveLength(12);
    const expected = Object.keys(outcomes).map((name) => [
      name,
      name.startsWith("first") ? "EACCES" : "EPERM",
    ]);
    expectOutcomes(place(), { id: "E22", user, outcomes }, Object.fromEntries(expected));
  });

  test.for(USERS)("E31 sockets open for %s in four families alone", async (user) => {
    const outcomes = await place().attack({ program: "kernel", id: "E31" }, user);
    expectOutcomes(place(), { id: "E31", user, outcomes }, expectedSockets());
  });

  test.for(USERS)("E32 what no program needs is refused to %s", async (user) => {
    const outcomes = await place().attack(
      { program: "kernel", id: "E32", words: REFUSED_CALLS },
      user,
    );
    const expected = all([...REFUSED_CALLS, ...PERSONALITIES], "EPERM");
    expectOutcomes(place(), { id: "E32", user, outcomes }, expected);
  });

  test.for(USERS)("E33 nothing is typed into a terminal by %s", async (user) => {
    const outcomes = await place().attack({ program: "kernel", id: "E33" }, user);
    const expected = {
      TIOCSTI: "EPERM",
      "TIOCSTI wide": "EPERM",
      TIOCLINUX: "ENOTTY",
      TIOCCONS: "EPERM",
    };
    expectOutcomes(place(), { id: "E33", user, outcomes }, expected);
  });

  test.for(USERS)("E34 clock, names, accounting and swap are out of reach of %s", async (user) => {
    const outcomes = await place().attack({ program: "kernel", id: "E34" }, user);
    expectOutcomes(place(), { id: "E34", user, outcomes }, all(MACHINE, "EPERM"));
  });

  test.for(USERS)("E35 /dev holds nothing else for %s", async (user) => {
    const { "beyond the list": more, ...devices } = await place().attack(
      { program: "kernel", id: "E35" },
      user,
    );
    // Its own devices, of which no host has any.
    expect(place().hasOwnKernel ? ["none", "fuse net"] : ["none"]).toContain(more);
    const expected = all(Object.keys(devices), "ENOENT");
    expectOutcomes(place(), { id: "E35", user, outcomes: devices }, expected);
  });

  // Where programs have a kernel of their own there is no filter to take away.
  if (hasOwnKernel(runtime)) describeOwnNamespaces(place);
  else describeFilterControl(runtime);
}

function describeFilterControl(runtime: string): void {
  test("E31 control: with CAP_NET_RAW and no filter, packet sockets open", async () => {
    const [filtered, open] = [await attackWith(runtime, RAW), await attackWith(runtime, BARE)];
    expect(filtered).toMatchObject({ "native 17": "EPERM", "packet raw": "EPERM" });
    expect(open).toMatchObject({ "native 17": "ok", "packet raw": "ok", "inet raw": "ok" });
  });
}

const RAW = `for (const set of ["bounding", "effective", "permitted"])
  config.process.capabilities[set].push("CAP_NET_RAW");`;
const BARE = `${RAW} delete config.linux.seccomp;`;

async function attackWith(runtime: string, config: string): Promise<Outcomes> {
  await using host = await startWeakHost(runtime, { config });
  await using layers = await attackLayers();
  await using container: Container = await host.create({ layers: layers.list });
  await initDaemon(container);
  const command = attackCommand({ program: "kernel", id: "E31" }).join(" ");
  return parseOutcomes((await runInside(container, command)).stdout);
}

/** Unconfined. */
export function describeKernelControl(): void {
  test("E21 control: every namespace is made", async () => {
    const outcomes = await attackUnconfined({ program: "kernel", id: "E21" });
    expect(new Set(Object.values(outcomes))).toEqual(new Set(["ok"]));
  });

  test("E22 control: namespaces are joined", async () => {
    const { "first user": itself, ...others } = await attackUnconfined({
      program: "kernel",
      id: "E22",
    });
    // Nobody can join the user namespace that he is in.
    expect(itself).toBe("EINVAL");
    expect(new Set(Object.values(others))).toEqual(new Set(["ok"]));
  });

  test("E31 control: more families open, by two conventions", async () => {
    const outcomes = await attackUnconfined({ program: "kernel", id: "E31" });
    // A 32-bit call is made where the kernel has that convention; x32 needs one built for it.
    const foreign = isX64 ? { "socketcall 17": "ok", "int80 17": "ok" } : {};
    expect(outcomes).toMatchObject({
      "native 17": "ok",
      "packet raw": "ok",
      "wide inet": "ok",
      ...foreign,
    });
  });

  test("E32 control: the kernel does or looks at them", async () => {
    const outcomes = await attackUnconfined({ program: "kernel", id: "E32", words: REFUSED_CALLS });
    const refused = Object.entries(outcomes).filter(([, outcome]) => outcome === "EPERM");
    expect(refused).toEqual([]);
    expect(outcomes).toMatchObject(all([...PERSONALITIES, "userfaultfd"], "ok"));
  });

  test("E32 control: each of them is missing from the profile", () => {
    const { syscalls } = createSeccompProfile(process.arch);
    const allowed = new Set(
      syscalls.flatMap(({ names, action }) => (action === "SCMP_ACT_ALLOW" ? names : [])),
    );
    expect(REFUSED_CALLS.filter((name) => allowed.has(name))).toEqual([]);
  });

  test("E33 control: a terminal takes what is typed into it", async () => {
    const outcomes = await attackUnconfined({ program: "kernel", id: "E33" });
    expect(outcomes).toMatchObject({ TIOCSTI: "ok", "TIOCSTI wide": "ok", TIOCCONS: "ok" });
  });

  test("E34 control: the machine is changed", async () => {
    const { reboot, swapon, ...others } = await attackUnconfined({ program: "kernel", id: "E34" });
    // Both are asked for something that cannot be done; they look at it.
    expect({ reboot, swapon }).toEqual({ reboot: "EINVAL", swapon: "EINVAL" });
    expect(new Set(Object.values(others))).toEqual(new Set(["ok"]));
  });

  test("E35 control: the host's /dev holds more", async () => {
    const outcomes = await attackUnconfined({ program: "kernel", id: "E35" });
    expect(outcomes["beyond the list"]).not.toBe("none");
    expect(Object.values(outcomes)).toContain("ok");
  });
}

function expectedSockets(): Outcomes {
  const native = FAMILIES.map((family) => [
    `native ${family}`,
    OPEN_FAMILIES.includes(family) ? "ok" : "EPERM",
  ]);
  const netlinks = NETLINKS.map((protocol) => [`netlink ${protocol}`, "EPROTONOSUPPORT"]);
  const foreign = ["socketcall", "int80", "x32"].flatMap((way) =>
    FAMILIES.map((family) => [`${way} ${family}`, "SIGSYS"]),
  );
  return Object.fromEntries([
    ...native,
    ...netlinks,
    ...(["packet raw", "inet raw", "wide vsock", "wide inet"] as const).map((name) => [
      name,
      "EPERM",
    ]),
    ...(isX64 ? foreign : []),
  ]);
}

function all(names: readonly string[], outcome: string): Outcomes {
  return Object.fromEntries(names.map((name) => [name, outcome]));
}
