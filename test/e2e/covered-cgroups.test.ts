/** A machine, or a container on it, that sees other cgroup trees than its mount table or an earlier process. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { PROGRAM, startProgram } from "../support/program.ts";

const run = promisify(execFile);
/** Mounts the trees of the machine anew, on top of the old ones, and not all of them. */
const FUNCTIONS = resolve(import.meta.dirname, "../kubernetes/cluster/cgroups.sh");

test("trees that another mount covers are left out, and sandboxes are still limited", async () => {
  await using home = await openTestHome();
  const script = `. ${FUNCTIONS}; mount --make-rprivate /; mount_hierarchies; exec "$@"`;
  const doctor = [process.execPath, PROGRAM, "doctor", "--home", home.path];
  const words = ["--mount", "bash", "-c", script, "bash", ...doctor];
  const { stdout } = await run("unshare", words);
  expect(stdout).toMatch(/ok +cgroups: version [12]$/m);
  expect(stdout).toMatch(/started, limited, paused and resumed/);
  expect(stdout).toMatch(/^usable: /m);
});

const REACHED = "mount --make-rprivate / && ";
const WAYS = [
  { way: "unmounted", script: `${REACHED}umount -R -l /sys/fs/cgroup` },
  {
    way: "read-only",
    script: `${REACHED}for tree in $(findmnt -rno TARGET -t cgroup,cgroup2); do mount -o remount,bind,ro "$tree"; done`,
  },
];

test.for(WAYS)(
  "without a cgroup tree to write to, $way as in a container, no sandbox starts without limits",
  async ({ script }) => {
    await using home = await openTestHome();
    const inside = ["unshare", "--mount", "sh", "-c", `${script} && exec "$@"`, "sh"] as const;
    const command = [...inside, process.execPath, PROGRAM] as const;
    const words = ["serve", "--home", home.path, "--port", "0"];
    for (const machine of ["new", "found fit by a process that saw the trees"]) {
      await using program = startProgram(words, {}, command);
      expect([machine, await program.exited(), program.stderr()]).toEqual([
        machine,
        69,
        expect.stringMatching(/^sandbox-mcp: .* cannot isolate: cgroups: none writable: .*\n$/),
      ]);
      await using doctor = startProgram(["doctor", "--home", home.path]);
      expect(await doctor.exited()).toBe(0);
    }
  },
);
