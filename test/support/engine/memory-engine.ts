/** The engine with empty layers, whose snapshots have memory too: a folder with one file. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../../src/common/errors.ts";
import { orCanceled } from "../../../src/common/or-canceled.ts";
import type { ContainerSpec, Engine } from "../../../src/engine/engine.ts";
import { notRestorable } from "../../../src/engine/gvisor/memory-image.ts";
import { createLayerEngine } from "./layer-engine.ts";

export interface MemoryEngine {
  readonly engine: Engine;
  /** What containers were started with, oldest first. */
  readonly specs: readonly ContainerSpec[];
  /** Makes the next save fail, half way. */
  failSave(): void;
  /** Holds the next so many halts with memory until it is disposed of. */
  holdSaves(amount: number): Disposable;
  /** Makes the next restore fail as on another machine. */
  failRestore(): void;
  /** Makes every look at saved memory fail. */
  failLook(): void;
  /** Makes the next boot of a halted container fail before it begins. */
  failBoot(): void;
  /** Lets daemons answer no client any more, or again. */
  silence(isSilent: boolean): void;
  /** Makes the next halt without memory fail, half way. */
  failHalt(): void;
}

const PAGES = "pages.img";
const OTHER_RUNTIME = "this runsc is another version";

export function createMemoryEngine(): MemoryEngine {
  const layered = createLayerEngine();
  const specs: ContainerSpec[] = [];
  let held = 0;
  let released = Promise.resolve();
  const failing = {
    save: false,
    restore: false,
    look: false,
    boot: false,
    halt: false,
    answer: false,
  };
  return {
    engine: {
      ...layered,
      async create(spec, signal) {
        specs.push(spec);
        if (spec.memory !== undefined) await readFile(join(spec.memory, PAGES));
        if (spec.memory !== undefined && failing.restore) {
          failing.restore = false;
          throw notRestorable(OTHER_RUNTIME);
        }
        const container = await layered.create(spec, signal);
        const snapshot = container.snapshot.bind(container);
        const boot = container.boot.bind(container);
        const halt = container.halt.bind(container);
        const dialPublic = container.dialPublic.bind(container);
        let saved: string | undefined;
        Object.defineProperty(container, "savedMemory", { get: () => saved });
        return Object.assign(container, {
          memoryFault: undefined,
          async dialPublic(late: AbortSignal) {
            if (!failing.answer) return dialPublic(late);
            return orCanceled(Promise.withResolvers<never>().promise, late, "no answer");
          },
          async findRestoreFault() {
            if (failing.look) throw new SandboxError("internal", "no look now");
            return failing.restore ? notRestorable(OTHER_RUNTIME).message : undefined;
          },
          async haltWithMemory() {
            held -= 1;
            if (held >= 0) await released;
            if (failing.save) {
              failing.save = false;
              throw new SandboxError("unavailable", "memory was not saved");
            }
            await halt();
            saved = join(spec.directory, "saved");
          },
          async halt() {
            if (failing.halt) {
              failing.halt = false;
              throw new SandboxError("unavailable", "no halt now");
            }
            await halt();
          },
          async boot(anew: ContainerSpec, limit: AbortSignal) {
            specs.push(anew);
            if (anew.memory !== undefined && failing.restore) {
              failing.restore = false;
              throw notRestorable(OTHER_RUNTIME);
            }
            if (failing.boot) {
              failing.boot = false;
              throw new SandboxError("unavailable", "no start now");
            }
            await boot(anew, limit);
            saved = undefined;
          },
          async snapshot(directory: string, memory?: string) {
            const layer = await snapshot(directory);
            if (memory === undefined) return layer;
            await mkdir(memory, { recursive: true });
            if (failing.save) {
              failing.save = false;
              throw new SandboxError("unavailable", "memory was not saved");
            }
            await writeFile(join(memory, PAGES), "pages");
            return layer;
          },
        });
      },
    },
    specs,
    failSave() {
      failing.save = true;
    },
    holdSaves(amount) {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = amount;
      released = promise;
      return { [Symbol.dispose]: resolve };
    },
    failRestore() {
      failing.restore = true;
    },
    failLook() {
      failing.look = true;
    },
    failBoot() {
      failing.boot = true;
    },
    silence(isSilent) {
      failing.answer = isSilent;
    },
    failHalt() {
      failing.halt = true;
    },
  };
}
