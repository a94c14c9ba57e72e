/** Makes one layer of several, as long as the disk has space for it. */

import type { Engine, Layer } from "../../engine/engine.ts";
import type { Folders, Services } from "../context.ts";
import { toCopyFault } from "../disks/disk-space.ts";

interface SquashContext extends Pick<Services & Folders, "copies" | "layersDirectory"> {
  readonly engine: Pick<Engine, "squash">;
}

interface SquashPlan {
  /** Bottom first. */
  readonly layers: readonly Layer[];
  /** How many of them stay as they are. */
  readonly kept: number;
  readonly directory: string;
  readonly signal: AbortSignal;
}

/**
 * How much is left of layers that hide files of each other shows when all of them were copied.
 * @throws SandboxError resource_exhausted, and what `squash` of the engine throws
 */
export async function squashLayers(
  context: SquashContext,
  { layers, kept, directory, signal }: SquashPlan,
): Promise<Layer> {
  const { copies, engine, layersDirectory: path } = context;
  try {
    return await copies.whileSpaceLeft({ path, signal }, (stop) =>
      engine.squash(layers, kept, { directory, signal: stop }),
    );
  } catch (error) {
    throw await toCopyFault(error, path);
  }
}
