/** An engine whose containers outlive their service, as after a kill: the next one finds them. */

import type { Container, Engine } from "../../src/engine/engine.ts";

export interface LastingEngine extends AsyncDisposable {
  readonly engine: Engine;
  /** Makes the next adoption of this container fail. */
  failAdoption(id: string): void;
}

/** Adds to an engine that what it made is found again; the containers end with it. */
export function createLastingEngine(base: Engine): LastingEngine {
  const containers = new Map<string, Container>();
  const failing = new Set<string>();
  return {
    engine: {
      ...base,
      async create(spec, signal) {
        const container = await base.create(spec, signal);
        containers.set(spec.id, container);
        return container;
      },
      async adopt(id) {
        if (failing.delete(id)) throw new Error("the container cannot be looked at now");
        return containers.get(id);
      },
      async remove(id, directory) {
        await containers.get(id)?.[Symbol.asyncDispose]();
        containers.delete(id);
        await base.remove(id, directory);
      },
    },
    failAdoption(id) {
      failing.add(id);
    },
    async [Symbol.asyncDispose]() {
      for (const container of containers.values()) await container[Symbol.asyncDispose]();
    },
  };
}
