/** What clients are told of faults of the system in a volume. */

import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { toVolumeFault } from "../../../src/sandboxes/volumes/volume-faults.ts";

const systemError = (code: string) =>
  Object.assign(new Error(`${code}: open '/home/volume-disks/a/disk/a/file'`), { code });

test.for([
  { code: "ENOENT", told: "not_found" },
  { code: "EEXIST", told: "already_exists" },
  { code: "ENOSPC", told: "resource_exhausted" },
  { code: "EROFS", told: "unavailable" },
])("$code is $told, without a path of the host", ({ code, told }) => {
  const fault = toVolumeFault(systemError(code));
  expect(fault).toBeInstanceOf(SandboxError);
  expect(fault).toMatchObject({ code: told, message: expect.not.stringContaining("/") });
});

test("a fault of another kind stays what it is", () => {
  const error = systemError("EIO");
  expect(toVolumeFault(error)).toBe(error);
});
