/** Polled watches whose clients vanished: they give way to new ones, the longest idle first. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createAttributes } from "../../../src/envd/attributes.ts";
import { findPerlPrograms } from "../../../src/envd/perl-programs.ts";
import { createAccountReader } from "../../../src/envd/user.ts";
import { createInotify } from "../../../src/envd/watch/inotify.ts";
import { createWatcherRegistry } from "../../../src/envd/watch/watchers.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MAX_WATCHES = 256;
const MAX_DIRECTORIES = 16_384;
const HALF_OF_DIRECTORIES = MAX_DIRECTORIES / 2;
const IDLE_MS = 10 * 60_000;
const LIMIT = { timeout: 60_000 };

/** A registry whose watches are kept, and whose clock stands still between two calls of `pass`. */
async function openRegistry() {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  let nowMs = 0;
  const perl = findPerlPrograms(PERL_DIRECTORY);
  const registry = createWatcherRegistry({
    accounts: createAccountReader({ passwd: "/etc/passwd", group: "/etc/group" }),
    attributes: createAttributes(perl.attributes),
    inotify: createInotify(perl.inotify),
    log: { write: () => undefined },
    now: () => nowMs,
  });
  const ids: string[] = [];
  const isThere = (id: string) => {
    try {
      registry.find(id);
      return true;
    } catch {
      return false;
    }
  };
  // The helper ends with the last watch.
  stack.defer(() => ids.filter((id) => isThere(id)).forEach((id) => registry.remove(id)));
  return {
    path,
    isThere,
    pass: (ms: number) => (nowMs += ms),
    async keep(recursive = false, below = ""): Promise<string> {
      const request = {
        path: join(path, below),
        recursive,
        includeEntry: false,
        allowNetworkMounts: true,
      };
      const id = registry.keep(await registry.open(request));
      ids.push(id);
      return id;
    },
    [Symbol.asyncDispose]: async () => stack.disposeAsync(),
  };
}

test("of 256 watches the one that was not polled the longest gives way", LIMIT, async () => {
  await using registry = await openRegistry();
  const ids: string[] = [];
  for (let count = 0; count < MAX_WATCHES; count += 1) ids.push(await registry.keep());
  registry.pass(IDLE_MS - 1);
  await expect(registry.keep()).rejects.toMatchObject({ code: "resource_exhausted" });
  const [first, second, ...others] = ids;
  for (const id of others) expect(registry.isThere(id)).toBe(true);
  registry.pass(1);
  ids.push(await registry.keep(), await registry.keep());
  await expect(registry.keep()).rejects.toMatchObject({ code: "resource_exhausted" });
  expect(ids.filter((id) => !registry.isThere(id))).toEqual([first, second]);
});

test(
  "directories of watches that no client polls give way to those of a new one",
  LIMIT,
  async () => {
    await using registry = await openRegistry();
    for (let count = 0; count < HALF_OF_DIRECTORIES; count += 1) {
      await mkdir(join(registry.path, String(count)));
    }
    const old = await registry.keep(true);
    await expect(registry.keep(true)).rejects.toMatchObject({ code: "resource_exhausted" });
    registry.pass(IDLE_MS);
    await registry.keep(true);
    expect(registry.isThere(old)).toBe(false);
  },
);

test("a tree for which all others together have no place ends none of them", LIMIT, async () => {
  await using registry = await openRegistry();
  await mkdir(join(registry.path, "small"));
  for (let count = 0; count < MAX_DIRECTORIES; count += 1) {
    await mkdir(join(registry.path, `large/${count}`), { recursive: true });
  }
  const old = [await registry.keep(true, "small"), await registry.keep(true, "small")];
  registry.pass(IDLE_MS);
  await expect(registry.keep(true, "large")).rejects.toMatchObject({ code: "resource_exhausted" });
  expect(old.map((id) => registry.isThere(id))).toEqual([true, true]);
});
