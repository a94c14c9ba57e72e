/** `gc`: removes what crashed instances left, and prints each thing that it removed. */

import { join } from "node:path";
import { type CleanUpFailure, printFailure } from "../common/clean-up.ts";
import { createSystemClock } from "../common/clock.ts";
import { withLock } from "../engine/host/lock.ts";
import { openStoreImage } from "../engine/storage/store-image.ts";
import { requireKnownContent } from "../sandboxes/reclaim/lost-database.ts";
import { reclaim } from "../sandboxes/reclaim/reclaim.ts";
import { collectHome } from "../spool/collect.ts";
import { openStore } from "../store/sqlite.ts";
import { openHome } from "./home/home.ts";
import { EXIT_OK, type CommandContext } from "./program/command.ts";
import { removeDeadCopies } from "./program/program-copies.ts";
import { findProgramFiles } from "./program/program-files.ts";
import { createEngine } from "./service/engine.ts";
import { spoolHome } from "./service/spool-folders.ts";
import { pruneBuiltIns } from "./templates/built-ins.ts";

/** Something is left that could not be removed now; all else was done. */
const EXIT_LEFT = 75;

export async function runGc({ config, log }: CommandContext): Promise<number> {
  await openHome(config.home);
  await using stack = new AsyncDisposableStack();
  stack.use(
    await openStoreImage({ home: config.home, perlDirectory: findProgramFiles().perlDirectory }),
  );
  using store = openStore({ path: join(config.home, "state.db") });
  await requireKnownContent(config.home, store);
  const engine = await createEngine(config);
  const { home } = config;
  let isLeft = false;
  const onFailure = (failure: CleanUpFailure) => {
    isLeft = true;
    const { kind, name, error } = failure;
    log.debug({ op: "gc", kind, name, err: error }, "could not be removed");
    printFailure(failure);
  };
  // None of them keeps the others from their work.
  const parts: Readonly<Record<string, () => Promise<string[]>>> = {
    instances: async () => {
      const removed = await reclaim({
        engine,
        store,
        home,
        self: undefined,
        takesKept: true,
        onFailure,
      });
      return removed.map(({ kind, name }) => `${kind} ${name}`);
    },
    layers: async () => {
      const prune = async () => pruneBuiltIns(home, store, onFailure);
      return withKind("layer", await withLock({ home, name: "reclaim" }, prune));
    },
    programs: async () => withKind("programs", await removeDeadCopies(home, onFailure)),
    outputs: async () =>
      withKind("output", await collectHome(spoolHome(home), createSystemClock(), onFailure)),
  };
  const removed: string[] = [];
  for (const [name, clean] of Object.entries(parts)) {
    try {
      removed.push(...(await clean()));
    } catch (error) {
      onFailure({ kind: "all", name, error });
    }
  }
  const lines = removed.map((what) => `removed ${what}\n`);
  const nothing = isLeft ? "" : "nothing to remove\n";
  process.stdout.write(lines.length === 0 ? nothing : lines.join(""));
  return isLeft ? EXIT_LEFT : EXIT_OK;
}

function withKind(kind: string, names: readonly string[]): string[] {
  return names.map((name) => `${kind} ${name}`);
}
