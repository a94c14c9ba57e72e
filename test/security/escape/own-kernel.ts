/**
 * Outcomes of attacks where programs have a kernel of their own: its versions refuse with errors of
 * their own, and do to themselves some of what is asked. Neither is of the machine, whose canaries and
 * whose own view of the sandbox are looked at beside each attack.
 */

import { expect, test } from "vitest";
import { kernelLog } from "../../support/engine/kernel-log.ts";
import type { AttackRange, Outcomes } from "../../support/hostile/attack-range.ts";

const REFUSALS = new Set(
  [
    "EACCES EAFNOSUPPORT EINVAL ENODEV ENOENT ENOSYS ENOTSUP ENOTTY ENXIO EPERM EPROTONOSUPPORT",
    "EROFS ESOCKTNOSUPPORT SIGSYS none contained",
  ].flatMap((line) => line.split(" ")),
);
/** What it may do, by attack: to its own processes, mounts and devices. */
const ITS_OWN: Readonly<Record<string, RegExp>> = {
  E13: /^\/proc\/sysrq-trigger$/,
  E21: /^(unshare|clone3?) /,
  // A newer one lets root trace processes of root.
  "E23 root": /^pid \d+ /,
  E24: /^(environ|maps|auxv|io|fd) of \d+$/,
  // Messages of its own about devices that it does not have.
  E31: /^netlink 15$/,
  E32: /^(mbind|set_mempolicy|personality .*)$/,
  E34: /^syslog$/,
  E35: /^(fuse|net\/tun)$/,
};

/** The outcomes of an attack: those expected, or of another kernel any refusal and what is its own. */
export function expectOutcomes(
  { hasOwnKernel }: AttackRange,
  { id, user, outcomes }: { readonly id: string; readonly user: string; outcomes: Outcomes },
  expected: Outcomes,
): void {
  if (!hasOwnKernel) {
    expect(outcomes).toEqual(expected);
    return;
  }
  expect(Object.keys(outcomes).toSorted()).toEqual(Object.keys(expected).toSorted());
  const own = ITS_OWN[`${id} ${user}`] ?? ITS_OWN[id];
  const reached = Object.entries(outcomes).filter(
    ([name, outcome]) =>
      outcome !== expected[name] &&
      !REFUSALS.has(outcome) &&
      !(outcome === "ok" && own?.test(name)),
  );
  expect(reached).toEqual([]);
}

/** Attacks with all the rights that a user namespace of the sandbox's own kernel gives. */
const RAISED = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts"];
const KEYS = "/proc/sysrq-trigger";

/** Where a sandbox may make namespaces of its own kernel. */
export function describeOwnNamespaces(place: () => AttackRange): void {
  test.for(["root", "user"])(
    "E21 rights in a namespace of its own give %s nothing of the machine",
    async (user) => {
      const { canary, sandbox } = place();
      const attack = async (program: string, id: string, ...words: readonly string[]) =>
        place().attack({ program, id, words, through: RAISED }, user);
      const link = await sandbox.commands.run("readlink /proc/self/ns/user", { user });
      const inside = await sandbox.commands.run(`${RAISED.join(" ")} readlink /proc/self/ns/user`, {
        user,
      });
      // Without a namespace that is new nothing would be tried.
      expect(inside.stdout).not.toBe(link.stdout);
      expect(await attack("mounts", "E10", canary.path)).toMatchObject({
        "double chroot": "contained",
      });
      for (const [id, ...words] of [["E08"], ["E09"], ["E11", "/dev/shm"], ["E14"]]) {
        const outcomes = await attack("mounts", id ?? "", ...words);
        expect(Object.values(outcomes)).not.toContain("escaped");
      }
      const { "mknod b 252:0": disk } = await attack("mounts", "E12");
      expect(disk).toMatch(/^(EPERM|ok)$/);
      // The numbers of the machine's first disks and of its memory.
      const open = await sandbox.commands.run(
        `${RAISED.join(" ")} sh -c 'cd /tmp; for n in "b 8 0" "b 252 0" "b 259 0" "c 1 1"; do mknod made $n; cat made; rm -f made; done' >/tmp/read-${user} 2>/dev/null; wc -c </tmp/read-${user}`,
        { user },
      );
      expect(open.stdout.trim()).toBe("0");
      const sockets = await attack("kernel", "E31");
      expect([sockets["native 40"], sockets["wide vsock"]]).not.toContain("ok");
    },
  );

  test("E13 what root writes to the keys of its kernel does not reach that of the machine", async () => {
    const { sandbox } = place();
    const before = await kernelLog();
    await sandbox.commands.run(`echo h >${KEYS}; true`, { user: "root" });
    expect(countKeys(await kernelLog())).toBe(countKeys(before));
  });
}

function countKeys(log: string): number {
  return log.split("\n").filter((line) => line.includes("sysrq:")).length;
}
