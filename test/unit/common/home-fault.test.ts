/** Faults that no command has foreseen: the home is named for its own alone. */

import { open } from "node:fs/promises";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { toHomeFault } from "../../../src/common/home-fault.ts";

const HOME = "/srv/boxes/home";

function fault(code: string, paths: Readonly<Record<string, string>> = {}): Error {
  return Object.assign(new Error(`${code}: it failed`), { code, ...paths });
}

test.for([
  { error: fault("EACCES", { path: HOME }), says: "failed_precondition" },
  { error: fault("EROFS", { path: `${HOME}/state.db` }), says: "failed_precondition" },
  { error: fault("EPERM", { path: "/tmp/a", dest: `${HOME}/a` }), says: "failed_precondition" },
  // The directory above it is another user's.
  { error: fault("EACCES", { path: "/srv/boxes" }), says: "failed_precondition" },
  { error: fault("ENOSPC", { path: `${HOME}/layers` }), says: "resource_exhausted" },
  { error: fault("EDQUOT"), says: "resource_exhausted" },
])("$error.code of $error.path is a fault of the home", ({ error, says }) => {
  const told = toHomeFault(error, HOME);
  expect(told).toBeInstanceOf(SandboxError);
  expect(told).toMatchObject({ code: says });
});

test.for([
  fault("EACCES", { path: "/srv/project/secret.env" }),
  fault("EACCES", { path: `${HOME}-other/file` }),
  // A signal, a socket.
  fault("EPERM"),
  fault("EACCES"),
  // Too many watches of files.
  fault("ENOSPC", { path: "/sys/fs/cgroup/a/cgroup.events" }),
  fault("ENOSPC", { path: "/tmp/export.tar" }),
  fault("ENOENT", { path: HOME }),
])("$code of $path is none of the home", (error) => {
  expect(toHomeFault(error, HOME)).toBe(error);
});

test("the system names the path of what it refuses, and none of an open file", async () => {
  const refused = await open("/proc/sys/kernel/version", "w").catch((error: unknown) => error);
  const full = await open("/dev/full", "w");
  const written = await full.writeFile("a").catch((error: unknown) => error);
  await full.close();
  expect(toHomeFault(refused, "/proc/sys")).toMatchObject({ code: "failed_precondition" });
  expect(toHomeFault(refused, HOME)).toBe(refused);
  expect(toHomeFault(written, HOME)).toMatchObject({ code: "resource_exhausted" });
});
