/** E08 to E14: mounts, roots, handles, devices and the kernel's own files. */

import { expect, test } from "vitest";
import { makeCanary, type AttackRange } from "../../support/hostile/attack-range.ts";
import { attackUnconfined } from "../../support/hostile/unconfined.ts";
import { expectOutcomes } from "./own-kernel.ts";

const USERS = ["root", "user"];
const MOUNT_CALLS = [
  "mount tmpfs",
  "mount proc",
  "fsopen",
  "open_tree",
  "move_mount",
  "mount_setattr",
  "remount /proc/sys",
];
const UNMASKING = ["umount /proc/interrupts", "umount /proc/sys", "bind /", "bind /proc"];
const DEVICES = ["mknod b 8:0", "mknod b 252:0", "mknod b 259:0", "mknod c 1:1", "mknod c 10:200"];
/** Files that this kernel may not have; where it has them, they do not open. */
const KERNEL_FILES = [
  "/proc/sys/kernel/core_pattern",
  "/proc/sys/kernel/modprobe",
  "/proc/sysrq-trigger",
  "/sys/kernel/uevent_helper",
  "/sys/kernel/mm/ksm/run",
  "/proc/sys/vm/drop_caches",
  "/proc/irq/default_smp_affinity",
  "/sys/power/state",
];

/** In a sandbox of the place(). */
export function describeMounts(place: () => AttackRange): void {
  test.for(USERS)("E08 no mount is made or changed by %s", async (user) => {
    const outcomes = await place().attack({ program: "mounts", id: "E08" }, user);
    expectOutcomes(place(), { id: "E08", user, outcomes }, all(MOUNT_CALLS, "EPERM"));
  });

  test.for(USERS)("E09 nothing is unmasked or bound elsewhere by %s", async (user) => {
    const outcomes = await place().attack({ program: "mounts", id: "E09" }, user);
    expectOutcomes(place(), { id: "E09", user, outcomes }, all(UNMASKING, "EPERM"));
  });

  test.for([
    { user: "root", chroot: "contained" },
    { user: "user", chroot: "EPERM" },
  ])("E10 $user walks up to no other root", async ({ user, chroot }) => {
    const words = [place().canary.path];
    const outcomes = await place().attack({ program: "mounts", id: "E10", words }, user);
    const expected = { "double chroot": chroot, pivot_root: "EPERM" };
    expectOutcomes(place(), { id: "E10", user, outcomes }, expected);
  });

  test.for(USERS)("E11 no handle of a file is made or opened by %s", async (user) => {
    const words = ["/dev/shm"];
    const outcomes = await place().attack({ program: "mounts", id: "E11", words }, user);
    const rows = ["name_to_handle_at", "round trip", "walk /", "walk /tmp"];
    expectOutcomes(place(), { id: "E11", user, outcomes }, all(rows, "EPERM"));
  });

  test.for(USERS)("E12 no device is made by %s", async (user) => {
    const outcomes = await place().attack({ program: "mounts", id: "E12" }, user);
    expectOutcomes(place(), { id: "E12", user, outcomes }, all(DEVICES, "EPERM"));
  });

  test.for(USERS)("E13 none of the kernel's files opens for writing to %s", async (user) => {
    const { release_agent: agent, ...files } = await place().attack(
      { program: "mounts", id: "E13" },
      user,
    );
    expect(Object.keys(files)).toEqual(KERNEL_FILES);
    expect(agent).toBe("none");
    if (place().hasOwnKernel) {
      const found = { id: "E13", user, outcomes: files };
      expectOutcomes(place(), found, all(KERNEL_FILES, "EACCES"));
      return;
    }
    expect(new Set(Object.values(files)).isSubsetOf(new Set(["EACCES", "EROFS", "ENOENT"]))).toBe(
      true,
    );
    expect(files["/proc/sys/kernel/core_pattern"]).toMatch(/EACCES|EROFS/);
  });

  test.for(USERS)("E14 no hierarchy is mounted or joined by %s", async (user) => {
    const outcomes = await place().attack({ program: "mounts", id: "E14" }, user);
    const expected = {
      "mount version 1": "EPERM",
      "mount version 2": "EPERM",
      "parent cgroup.procs": "none",
    };
    expectOutcomes(place(), { id: "E14", user, outcomes }, expected);
  });
}

/** Unconfined. */
export function describeMountsControl(): void {
  test("E08 control: mounts are made and changed", async () => {
    const outcomes = await attackUnconfined({ program: "mounts", id: "E08" });
    expect(outcomes).toEqual(all(MOUNT_CALLS, "ok"));
  });

  test("E09 control: masks are taken away", async () => {
    const outcomes = await attackUnconfined({ program: "mounts", id: "E09" });
    expect(outcomes).toEqual(all(UNMASKING, "ok"));
  });

  test("E10 control: a root by chroot alone is walked out of", async () => {
    await using canary = await makeCanary();
    const attack = { program: "mounts", id: "E10", words: [canary.path] };
    expect(await attackUnconfined(attack, "chroot")).toEqual({
      "double chroot": "escaped",
      pivot_root: "escaped",
    });
  });

  test("E11 control: a handle opens its file", async () => {
    const outcomes = await attackUnconfined({ program: "mounts", id: "E11", words: ["/tmp"] });
    expect(outcomes).toMatchObject({ name_to_handle_at: "ok", "round trip": "ok" });
  });

  test("E12 control: devices are made", async () => {
    const outcomes = await attackUnconfined({ program: "mounts", id: "E12" });
    expect(outcomes).toEqual(all(DEVICES, "ok"));
  });

  test("E13 control: the kernel's files open for writing where it has them", async () => {
    const outcomes = await attackUnconfined({ program: "mounts", id: "E13" });
    expect(outcomes).toMatchObject({
      "/proc/sys/kernel/core_pattern": "ok",
      "/proc/sys/vm/drop_caches": "ok",
    });
  });

  test("E14 control: a hierarchy is mounted and joined", async () => {
    const outcomes = await attackUnconfined({ program: "mounts", id: "E14" });
    expect(outcomes).toMatchObject({ "parent cgroup.procs": "ok" });
    expect(Object.values(outcomes).filter((outcome) => outcome === "ok").length).toBeGreaterThan(1);
  });
}

function all(names: readonly string[], outcome: string): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, outcome]));
}
