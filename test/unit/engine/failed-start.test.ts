/** A start that fails while its clean-up fails too: the client is told why the start failed. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { endFailedStart } from "../../../src/engine/oci/launch.ts";
import { openProcessGroup, type Cgroup } from "../../../src/engine/oci/process-group.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("the fault of the start stays, and its cause names both", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "i0");
  await mkdir(directory);
  const reason = new SandboxError("deadline_exceeded", "runc took too long", { hint: "wait" });
  const left = new SandboxError("unavailable", "processes did not end");
  const cgroup: Cgroup = {
    ...openProcessGroup("i0", directory),
    kill: () => Promise.reject(left),
  };
  const routers = {
    outlivesProcess: false,
    hasLost: async () => true,
    async setEgress() {},
    async disconnect() {},
  };
  const fault = await endFailedStart({ directory, cgroup, routers, reason });
  expect(fault).toMatchObject({
    code: "deadline_exceeded",
    message: "runc took too long",
    hint: "wait",
    cause: { errors: [reason, left] },
  });
});
