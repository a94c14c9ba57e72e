/** What the log has of a clean-up at a start that the stop of its service cuts short. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { reclaimAtStart } from "../../../src/sandboxes/reclaim/reclaim-at-start.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test.for([
  { name: "is stopped", stops: true, level: "info" },
  { name: "goes on", stops: false, level: "error" },
])("what stays while the service $name is of level $level", async ({ stops, level }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: join(home.path, "state.db") });
  const closing = new AbortController();
  const lines: unknown[] = [];
  const hear = (of: string) => (_fields: object, message: string) => lines.push([of, message]);
  const log = Object.assign(createSilentLog(), { error: hear("error"), info: hear("info") });
  const prune = async () => {
    if (stops) closing.abort();
    throw new Error("was cut short");
  };
  const context = { store, log, owner: "serve", closing: closing.signal, engine: { prune } };
  // What a clean-up of an empty home uses.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  await reclaimAtStart(context as unknown as Parameters<typeof reclaimAtStart>[0], home.path);
  expect(lines).toEqual([[level, "leftover stays"]]);
});
