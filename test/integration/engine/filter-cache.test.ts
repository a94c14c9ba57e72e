/** Which compiled filter is used again, and that a process without it is found out. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSeccompCache } from "../../../src/engine/oci/seccomp.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a filter that did not take hold on its process is never used again", async () => {
  await using state = await makeTempFolder();
  await writeFile(join(state.path, "seccomp.bpf"), "filter");
  const cache = createSeccompCache();
  // This process has no filter.
  await cache.learn("crun", state.path, process.pid);
  expect(cache.get("crun")).toBeUndefined();
  await cache.learn("crun", state.path, 0);
  expect(cache.get("crun")).toBeUndefined();
});

test("a process cannot be filtered by what was never learned", async () => {
  const cache = createSeccompCache();
  expect(() => cache.verify("runc", process.pid)).toThrow(
    expect.objectContaining({ code: "unavailable" }),
  );
});
