/**
 * `npm run limits:user`: the limits of an ordinary user's sandboxes on a real kernel with version 2
 * cgroups, whatever this machine has. User Mode Linux, of Debian's package `user-mode-linux`, runs
 * that kernel as a process on the files of this machine; root is needed, for an account.
 */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findProgram } from "../../src/engine/host/find-program.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const HERE = import.meta.dirname;
const DISK_BYTES = 4 * 1024 ** 3;
const LIMIT_MS = 1_800_000;
const HELD = "limits hold: memory, processes, processors";

const EXPECTED = {
  doctor: {
    "an application of the user": `ok       cgroups: delegated, ${HELD}`,
    "a session": "warning  cgroups: none delegated to this user",
    "a unit with processes": `ok       cgroups: delegated, ${HELD}`,
    "a unit without memory": "warning  cgroups: none delegated to this user",
  },
  unit: { hasProcesses: false, groups: "gone" },
  limits: {
    "memory.max": "134217728",
    "memory.swap.max": "0",
    "pids.max": "64",
    "cpu.max": "100000 100000",
  },
  attacks: {
    // Ended by a signal.
    hog: -1,
    hasMemoryKills: true,
    hasProcessRefusals: true,
    isMetered: true,
    after: "lives",
  },
  isPaused: true,
  isResumed: true,
  isFrozenByGuardian: true,
  afterGuardian: ["lives", "134217728"],
  isLeft: false,
};

const kernel = findProgram("linux.uml");
assert.ok(kernel !== undefined, "no linux.uml: apt-get install user-mode-linux");
await using folder = await makeTempFolder();
await using user = await openOrdinaryUser({ ids: true });
const disk = join(folder.path, "disk");
await using file = await open(disk, "w");
await file.truncate(DISK_BYTES);
await promisify(execFile)("mkfs.ext4", ["-q", "-F", disk]);

const result = join(folder.path, "result");
const variables = {
  ACCOUNT: user.name,
  ACCOUNT_HOME: user.home,
  NODE: process.execPath,
  INSIDE: join(HERE, "inside.ts"),
  RESULT: result,
};
const machine = spawn(
  kernel,
  [
    ...`mem=3G quiet rw con=null con0=null,fd:1 uml_dir=${folder.path} ubda=${disk}`.split(" "),
    ...`root=/dev/root rootfstype=hostfs rootflags=/ init=${join(HERE, "init.sh")}`.split(" "),
    ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
  ],
  { stdio: ["ignore", "inherit", "inherit"], timeout: LIMIT_MS },
);
await once(machine, "exit");
const text = await readFile(result, "utf8").catch(() => "");
const errors = await readFile(`${result}.errors`, "utf8").catch(() => "");
assert.ok(text !== "", `it ended without a result:\n${errors}`);
assert.deepEqual(JSON.parse(text), EXPECTED);
process.stdout.write("the limits of an ordinary user's sandboxes hold\n");
