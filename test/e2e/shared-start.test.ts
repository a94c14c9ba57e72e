/** Homes of tests share what the first start of a service leaves: a service takes it as its own. */

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { probesOf, shareStart } from "../support/engine/shared-start.ts";
import { openTestHome } from "../support/home.ts";
import { startServe } from "../support/serve.ts";

test("a service in a home with the result of another home does not try the machine", async () => {
  const first = await startServe();
  await first[Symbol.asyncDispose]();
  await using home = await openTestHome();
  await shareStart(home.path);
  const filesOf = async () => {
    const paths = (await probesOf(home.path)).map((name) => join(home.path, name));
    return Promise.all(paths.map(async (path) => ({ path, inode: (await stat(path)).ino })));
  };
  const before = await filesOf();
  expect(before).toHaveLength(1);
  await using serve = await startServe([], { home: home.path });
  expect(serve.home).toBe(home.path);
  // A result is written as another file.
  expect(await filesOf()).toEqual(before);
});
