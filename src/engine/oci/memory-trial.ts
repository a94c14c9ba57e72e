/** Whether a runtime carries memory, found by doing it: versions of one runtime differ. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { signalAfter } from "../../common/late-signal.ts";
import type { Container, ContainerSpec } from "../engine.ts";
import { newProbeId } from "../storage/prune.ts";
import type { LaunchContext } from "./launch-context.ts";
import { startContainer } from "./launch.ts";
import { FOLDER_NAMES } from "./remove-container.ts";

/** A slow machine is not unable. */
const TIMEOUT_MS = 30_000;
/** The result is remembered: a fault of one moment must not decide. */
const ATTEMPTS = 2;

export interface MemoryTrial {
  readonly home: string;
  readonly container: Container;
  readonly spec: ContainerSpec;
  /** Rejects when the daemon of a container does not answer. */
  readonly ask: (container: Container) => Promise<void>;
}

/**
 * Saves the memory of a container, has another one go on from it, and asks both. A version that
 * cannot do so fails in some way of its own, which is no fault of the machine.
 */
export async function tryMemory(context: LaunchContext, trial: MemoryTrial): Promise<boolean> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    try {
      await carryOnce(context, trial, `trial-${attempt}`);
      return true;
    } catch {
      // It may have been the moment.
    }
  }
  return false;
}

async function carryOnce(context: LaunchContext, trial: MemoryTrial, name: string): Promise<void> {
  const { home, container, spec, ask } = trial;
  // Removed with the container.
  const folder = join(spec.directory, FOLDER_NAMES.runtime, name);
  const [files, memory] = [join(folder, "files"), join(folder, "memory")];
  const id = newProbeId();
  await mkdir(folder, { mode: 0o700 });
  const layer = await container.snapshot(files, memory);
  const restored = { ...spec, id, directory: join(home, id), memory };
  const layers = [...spec.layers, layer];
  const signal = signalAfter(TIMEOUT_MS);
  await using copy = await startContainer(context, { ...restored, layers }, signal);
  await Promise.all([ask(copy), ask(container)]);
}
