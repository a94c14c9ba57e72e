/** The `bare` engine with layers that hold nothing: enough for everything that is told of them. */

import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import { createBareEngine } from "../../src/engine/bare/bare.ts";
import type { Engine } from "../../src/engine/engine.ts";

const DAEMON = resolve(import.meta.dirname, "../../src/envd/main.ts");

/** Snapshots succeed; containers start whatever layers they are given. A built daemon starts faster. */
export function createLayerEngine(daemon: string = DAEMON): Engine {
  const bare = createBareEngine({ command: [process.execPath, daemon] });
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
