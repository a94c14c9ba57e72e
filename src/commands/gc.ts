/** `gc`: removes what crashed instances left, and prints each thing that it removed. */

import { join } from "node:path";
import { reclaim } from "../sandboxes/reclaim.ts";
import { collectHome } from "../spool/collect.ts";
import { openStore } from "../store/sqlite.ts";
import { pruneBuiltIns } from "./built-ins.ts";
import type { CommandContext } from "./command.ts";
import { createLocalEngine } from "./engine.ts";
import { openHome } from "./home.ts";
import { spoolHome } from "./spool-folder.ts";

const EXIT_OK = 0;

export async function runGc({ config }: CommandContext): Promise<number> {
  await openHome(config.home);
  using store = openStore({ path: join(config.home, "state.db") });
  const engine = createLocalEngine(config);
  const removed = await reclaim({
    engine,
    store,
    home: config.home,
    self: undefined,
    takesKept: true,
  });
  const layers = await pruneBuiltIns(config.home, store);
  const outputs = await collectHome(spoolHome(config.home), Date.now());
  const lines = [
    ...removed.map(({ kind, name }) => `removed ${kind} ${name}\n`),
    ...layers.map((name) => `removed layer ${name}\n`),
    ...outputs.map((name) => `removed output ${name}\n`),
  ];
  process.stdout.write(lines.length === 0 ? "nothing to remove\n" : lines.join(""));
  return EXIT_OK;
}
