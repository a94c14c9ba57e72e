/** The base template with the programs of the attacks above it, for containers of the engine alone. */

import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Layer } from "../../../src/engine/engine.ts";
import { baseLayers } from "../base-layer.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { attackFiles } from "./attack-range.ts";

export interface AttackLayers extends AsyncDisposable {
  readonly list: readonly Layer[];
  /** The tree of the topmost layer, which a test may change before it is used. */
  readonly root: string;
}

export async function attackLayers(): Promise<AttackLayers> {
  const folder = await makeTempFolder();
  const root = join(folder.path, "root");
  for (const { source, path } of attackFiles()) {
    await mkdir(dirname(join(root, path)), { recursive: true, mode: 0o755 });
    await copyFile(source, join(root, path));
  }
  return {
    list: [...(await baseLayers()), { root }],
    root,
    [Symbol.asyncDispose]: async () => folder[Symbol.asyncDispose](),
  };
}
