/** A container whose service died before a restore had a kernel: its memory is as it was, or it is gone. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findRestored } from "../../../src/engine/gvisor/find-restored.ts";
import { MEMORY_IMAGE, readPlace, sealImage } from "../../../src/engine/gvisor/memory-image.ts";
import { removeImage } from "../../../src/engine/gvisor/remove-image.ts";
import { openProcessGroup } from "../../../src/engine/oci/process-group.ts";
import { HALTED } from "../../support/engine/halted-record.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("memory that a service had begun to remove is not said to be there", async () => {
  await using folder = await makeTempFolder();
  const memory = join(folder.path, "memory");
  await mkdir(join(memory, MEMORY_IMAGE), { recursive: true });
  const here = await readPlace(process.execPath, "daemon");
  await sealImage(memory, { ...here, secret: "secret" }, 1_000);
  const find = async () =>
    findRestored({
      id: HALTED.id,
      directory: folder.path,
      perlDirectory: PERL_DIRECTORY,
      daemon: folder.path,
      cgroups: { legacy: [], unified: undefined, hasSwapLimit: false, delegation: undefined },
      runtime: process.execPath,
      cgroup: openProcessGroup(HALTED.id, folder.path),
      record: { ...HALTED, level: "gvisor", memory: "begun" },
      memory,
      home: folder.path,
    });
  expect(await find()).toBe("unused");
  await removeImage(memory);
  expect(await find()).toBe("unknown");
});
