/** The `bare` engine with layers that hold nothing: enough for everything that is told of them. */

import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import type { Engine } from "../../../src/engine/engine.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import { createBareEngine } from "./bare-engine.ts";

const DAEMON = resolve(import.meta.dirname, "../../../dist/envd.cjs");

/** Snapshots succeed; containers start whatever layers they are given. */
export function createLayerEngine(): Engine {
  const bare = createBareEngine({
    command: [process.execPath, DAEMON],
    perlDirectory: PERL_DIRECTORY,
  });
  return {
    ...bare,
    async create(spec, signal) {
      const container = await bare.create(spec, signal);
      return Object.assign(container, {
        async snapshot(directory: string) {
          await mkdir(directory);
          return { root: directory };
        },
      });
    },
  };
}
