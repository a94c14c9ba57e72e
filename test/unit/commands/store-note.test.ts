import { expect, test } from "vitest";
import { storeNote } from "../../../src/commands/service/setting-notes.ts";
import { SandboxError } from "../../../src/common/errors.ts";

test("a store that is larger than was asked for is told", () => {
  expect(storeNote({ sizeGb: 16 }, 8)).toBe(
    "--store-gb 8: the home has a store of 16 GiB, which keeps its size",
  );
});

test.for([
  [undefined, undefined],
  [undefined, 8],
  [{ sizeGb: 16 }, 16],
] as const)("a store %o for --store-gb %s is not told", ([size, wantedGb]) => {
  expect(storeNote(size, wantedGb)).toBeUndefined();
});

test("a store that did not grow is told with the reason and what to do, not with its cause", () => {
  const fault = new SandboxError("resource_exhausted", "the disk of the home is full", {
    cause: new Error("grow /home/x: No space left on device"),
    hint: "free space there, then restart the service",
  });
  expect(storeNote({ sizeGb: 8, fault }, 16)).toBe(
    "--store-gb 16: the store keeps its 8 GiB, because the disk of the home is full: free space there, then restart the service",
  );
});

test("a store whose size cannot be read is told without a size", () => {
  const fault = new SandboxError("unavailable", "its size cannot be read");
  expect(storeNote({ sizeGb: undefined, fault }, 16)).toBe(
    "--store-gb 16: the store keeps its size, because its size cannot be read",
  );
});
