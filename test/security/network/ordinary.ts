/** The way out of an ordinary user's sandboxes: what it is, what it leads to, and when it ends. */

import { readFile } from "node:fs/promises";
import { Sandbox } from "e2b";
import { describe, expect, test } from "vitest";
import { LAB } from "../../support/network/lab.ts";
import {
  ALL,
  answered,
  attack,
  disarm,
  FAILED,
  fetchFrom,
  inside,
  namePrograms,
  OPEN,
  OTHER,
  udpFrom,
  uplinkPrograms,
  type Attempt,
  type Field,
} from "./ground.ts";

/** A public address that the machine gets while sandboxes run. */
const NEW_ADDRESS = "198.51.100.99";
const SIGKILL = "SIGKILL";

export function describeOrdinary(ground: () => Field): void {
  describe("the way out", () => {
    test("a public host answers over TCP, UDP and ICMP, and sees the machine as the sender", async () => {
      const { sandbox } = ground();
      expect(await fetchFrom(sandbox, OPEN)).toBe(`far ${LAB.publicHost} saw ${LAB.machine}`);
      expect(await udpFrom(sandbox, LAB.publicHost, LAB.port)).toBe("b'far knock'");
      const ping: Attempt = ["icmp", LAB.publicHost, 0];
      expect(answered(await attack(sandbox, [ping]))).toEqual([ping.join(" ")]);
      expect(await fetchFrom(sandbox, `http://service.test:${LAB.port}/`)).toContain("far");
      expect(await inside(sandbox, "grep eth0 /proc/net/if_inet6")).toBe("");
    });

    test("one program without rights is the way out of all sandboxes of a service", async () => {
      await using other = await ground().create();
      expect(await fetchFrom(other, OPEN)).toContain("far");
      const programs = await uplinkPrograms(ground().serve.home);
      expect(programs).toHaveLength(1);
      const status = await readFile(`/proc/${programs[0]?.pid}/status`, "utf8");
      // CAP_NET_BIND_SERVICE, in the user's own namespace.
      expect(status).toMatch(/^CapEff:\t0{13}400$/m);
      expect(status).toMatch(/^Seccomp:\t2$/m);
      const limits = await readFile(`/proc/${programs[0]?.pid}/limits`, "utf8");
      expect(limits).toMatch(/^Max open files +4096 +4096 /m);
      expect(limits).toMatch(/^Max address space +2147483648 +2147483648 /m);
    });

    test("neither the program nor the machine answers by an address of the link", async () => {
      const attempts = ["198.19.0.2", "198.19.0.3", "198.19.0.100"].flatMap((host): Attempt[] => [
        ...[22, 53, 69, LAB.port].map((port): Attempt => ["tcp", host, port]),
        ...[53, 67, 69, LAB.port].map((port): Attempt => ["udp", host, port]),
        ["icmp", host, 0],
      ]);
      expect(answered(await attack(ground().sandbox, attempts))).toEqual([]);
    });

    test("rules of addresses and names hold, and change on a running sandbox", async () => {
      await using narrow = await ground().createFor([`${LAB.publicHost}/32`]);
      expect(await fetchFrom(narrow, OPEN)).toContain("far");
      expect(await fetchFrom(narrow, OTHER)).toMatch(FAILED);
      await narrow.updateNetwork({ allowOut: ["allowed.test"], denyOut: [ALL] });
      expect(await fetchFrom(narrow, OPEN)).toMatch(FAILED);
      const curl = async () => inside(narrow, "curl -sS -m 4 http://allowed.test/");
      expect(await curl()).toContain(`"at":"${LAB.publicHost}"`);
      const [pid] = await namePrograms(ground());
      const status = await readFile(`/proc/${pid}/status`, "utf8");
      expect(status).toMatch(/^CapEff:\t0+$/m);
      await narrow.updateNetwork({ allowInternetAccess: false });
      expect(await inside(narrow, "grep -c : /proc/net/dev")).toBe("1");
      await narrow.updateNetwork({ allowInternetAccess: true });
      expect(await fetchFrom(narrow, OTHER)).toContain("far");
    });

    test("an address that the machine gets is out of reach from then on", async () => {
      const { sandbox, lab } = ground();
      const own: Attempt = ["tcp", NEW_ADDRESS, LAB.port];
      await lab.onMachine(`ip addr add ${NEW_ADDRESS}/32 dev lo`);
      const reaches = async () => answered(await attack(sandbox, [own]));
      await expect.poll(reaches).toEqual([]);
      expect(await fetchFrom(sandbox, OPEN)).toContain("far");
      await lab.onMachine(`ip addr del ${NEW_ADDRESS}/32 dev lo`);
    });

    test("it is there again when it dies", async () => {
      const { sandbox, serve } = ground();
      const [before] = await uplinkPrograms(serve.home);
      process.kill(before?.pid ?? 0, SIGKILL);
      await expect.poll(async () => fetchFrom(sandbox, OPEN)).toContain("far");
      const after = await uplinkPrograms(serve.home);
      expect(after.map(({ pid }) => pid)).not.toContain(before?.pid);
      expect(after).toHaveLength(1);
    });

    test("it ends with a service that is killed, and the next one restores it with its rules", async () => {
      const { serve, options } = ground();
      await using narrow = await ground().createFor([`${LAB.publicHost}/32`]);
      await ground().restart(async () => {
        await expect.poll(async () => uplinkPrograms(serve.home)).toEqual([]);
      });
      const found = await Sandbox.connect(narrow.sandboxId, options);
      await expect.poll(async () => fetchFrom(found, OPEN)).toContain("far");
      expect(await fetchFrom(found, OTHER)).toMatch(FAILED);
      expect(await uplinkPrograms(serve.home)).toHaveLength(1);
    });
  });
}

/** One look at what is never reached, then at the same without the rules of the router. */
export function describeShortAttacks(ground: () => Field): void {
  const hosts = [LAB.machine, LAB.bridge].flatMap((host) =>
    [...LAB.greetings, LAB.port].map((port): Attempt => ["tcp", host, port]),
  );
  const others = LAB.unreachable.map((host): Attempt => ["tcp", host, LAB.port]);

  test("no listener of the machine, private address or metadata service answers", async () => {
    await using greedy = await ground().create({
      network: { allowOut: [ALL, ...LAB.unreachable, LAB.machine] },
    });
    const before = await ground().lab.strayed();
    for (const target of [ground().sandbox, greedy]) {
      expect(answered(await attack(target, [...hosts, ...others]))).toEqual([]);
    }
    expect(await ground().lab.strayed()).toBe(before);
  });

  test("without the defence each of them answers", async () => {
    await disarm(ground());
    const all = [...hosts, ...others];
    expect(answered(await attack(ground().sandbox, all))).toEqual(all.map((at) => at.join(" ")));
  });
}
