/** The disk of a home that is not where it was when the service began. */

import { once } from "node:events";
import { statfs } from "node:fs/promises";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import {
  createCopyLedger,
  requireDiskSpace,
  toDiskFault,
} from "../../../src/sandboxes/disks/disk-space.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a home that is gone is named, with what to do about it", async () => {
  await expect(requireDiskSpace("/nonexistent/home/layers")).rejects.toMatchObject({
    code: "unavailable",
    message: "the home of the service was removed or renamed",
    hint: "put it back as it was, or restart the service",
  });
});

test("a copy does not take the space that images were promised", async () => {
  await using folder = await makeTempFolder();
  const copies = createCopyLedger();
  const copy = async () => copies.during(folder.path, 1, async () => "copied");
  expect(await copy()).toBe("copied");
  const { bavail, bsize } = await statfs(folder.path);
  copies.notePromised(bavail * bsize);
  await expect(copy()).rejects.toMatchObject({ code: "resource_exhausted" });
  await expect(copies.requireSpaceLeft(folder.path)).rejects.toMatchObject({
    code: "resource_exhausted",
  });
  copies.notePromised(0);
  expect(await copy()).toBe("copied");
});

test("work that writes without a known end is ended before it takes what was promised", async () => {
  await using folder = await makeTempFolder();
  const copies = createCopyLedger();
  const place = { path: folder.path, signal: new AbortController().signal };
  expect(await copies.whileSpaceLeft(place, async () => "done")).toBe("done");
  const written = copies.whileSpaceLeft(place, async (signal) => {
    copies.notePromised(2 ** 60);
    await once(signal, "abort");
    throw new SandboxError("canceled", "the program was ended");
  });
  await expect(written).rejects.toMatchObject({ code: "resource_exhausted" });
  await expect(copies.whileSpaceLeft(place, async () => "begun")).rejects.toMatchObject({
    code: "resource_exhausted",
  });
});

test("what failed on a disk that cannot be read is a fault, not a rejection", async () => {
  const cause = new Error("the container did not start");
  expect(await toDiskFault(cause, "/nonexistent/home/layers")).toMatchObject({
    code: "unavailable",
    message: "the home of the service was removed or renamed",
  });
  await using folder = await makeTempFolder();
  expect(await toDiskFault(cause, folder.path)).toBe(cause);
});
