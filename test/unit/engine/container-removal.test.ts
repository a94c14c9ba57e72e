/** The removal of a container that fails once: the next call tries again. */

import { access, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { openContainer } from "../../../src/engine/oci/container.ts";
import { openProcessGroup, type Cgroup } from "../../../src/engine/oci/process-group.ts";
import { createSocketWatch } from "../../../src/engine/oci/socket-watch.ts";
import { BARE_PARTS, HALTED } from "../../support/engine/halted-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a removal that failed is tried again by the next call", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "i0");
  await mkdir(directory);
  let attempts = 0;
  const cgroup: Cgroup = {
    ...openProcessGroup("i0", directory),
    async kill() {
      attempts += 1;
      if (attempts === 1) throw new SandboxError("deadline_exceeded", "processes did not end");
    },
  };
  const container = openContainer({
    ...BARE_PARTS,
    directory,
    record: HALTED,
    cgroup,
    sockets: createSocketWatch(),
  });
  await expect(container[Symbol.asyncDispose]()).rejects.toThrow("processes did not end");
  expect(await container.exit).toEqual({ reason: "killed" });
  await container[Symbol.asyncDispose]();
  await expect(access(directory)).rejects.toThrow("ENOENT");
  const made = attempts;
  await container[Symbol.asyncDispose]();
  expect([made > 1, attempts]).toEqual([true, made]);
});
