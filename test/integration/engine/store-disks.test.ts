/** Disks in the store of a home whose containers are gone. */

import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { CleanUpFailure } from "../../../src/common/clean-up.ts";
import { isRootless } from "../../../src/common/privilege.ts";
import { createBareEngine } from "../../../src/engine/bare/bare.ts";
import { openStoreImage } from "../../../src/engine/storage/store-image.ts";
import { containersDirectory, reclaim } from "../../../src/sandboxes/reclaim.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const PROBE = "probe1x0123456789abcdef";

test.skipIf(isRootless())(
  "a disk in the store without a container goes at a clean-up",
  async () => {
    await using folder = await makeTempFolder();
    const home = folder.path;
    await using image = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb: 1 });
    expect(image).toBeDefined();
    const disks = join(home, "store/disks");
    for (const name of ["lost", "there", PROBE]) {
      await mkdir(join(disks, name), { recursive: true });
      await writeFile(join(disks, name, "disk.img"), "");
    }
    await mkdir(join(containersDirectory(home, "me"), "there"), { recursive: true });
    await mkdir(join(home, PROBE));
    using store = openStore({ path: ":memory:" });
    const removed = await reclaim({
      engine: createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY }),
      store,
      home,
      self: "me",
      takesKept: false,
      onFailure: ({ error }: CleanUpFailure) => {
        throw error;
      },
    });
    expect(removed).toEqual([{ kind: "sandbox", name: "lost" }]);
    expect((await readdir(disks)).toSorted()).toEqual([PROBE, "there"]);
  },
);

test.skipIf(isRootless())("a store that cannot be read keeps nothing else", async () => {
  await using folder = await makeTempFolder();
  const home = folder.path;
  await using image = await openStoreImage({ home, perlDirectory: PERL_DIRECTORY, sizeGb: 1 });
  expect(image).toBeDefined();
  await writeFile(join(home, "store/disks"), "");
  const engine = createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY });
  using store = openStore({ path: ":memory:" });
  const failures: CleanUpFailure[] = [];
  const removed = await reclaim({
    engine: { ...engine, prune: async () => ["daemon"] },
    store,
    home,
    self: "me",
    takesKept: false,
    onFailure: (failure: CleanUpFailure) => failures.push(failure),
  });
  expect(removed).toEqual([{ kind: "tool", name: "daemon" }]);
  expect(failures).toMatchObject([{ kind: "sandbox", name: "disks in the store" }]);
});
