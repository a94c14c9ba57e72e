/** An engine whose containers outlive their service, as after a kill: the next one finds them. */

import type { Container, Egress, Engine } from "../../../src/engine/engine.ts";

export interface LastingEngine extends AsyncDisposable {
  readonly engine: Engine;
  /** Makes the next adoption of this container fail, with a fault of the system or another one. */
  failAdoption(id: string, fault?: Error): void;
  /** Makes the next resume of this container fail. */
  failResume(id: string): void;
  /** What happens while this container gets its rules the next time. */
  atEgress(id: string, work: () => Promise<void>): void;
  /** What this container was told to reach since it was made. */
  egressOf(id: string): readonly Egress[];
  /** How all containers reach the internet, in a service that starts after it. */
  setNetwork(network: Container["network"]): void;
  /** How often this container was looked for. */
  adoptions(id: string): number;
}

/** Adds to an engine that what it made is found again; the containers end with it. */
export function createLastingEngine(base: Engine): LastingEngine {
  const containers = new Map<string, Container>();
  const rules = new Map<string, Egress[]>();
  const failing = new Map<string, Error>();
  const works = new Map<string, () => Promise<void>>();
  const looks = new Map<string, number>();
  return {
    engine: {
      ...base,
      async create(spec, signal) {
        const container = await base.create(spec, signal);
        const told: Egress[] = [];
        rules.set(spec.id, told);
        containers.set(spec.id, container);
        return Object.assign(container, {
          async setEgress(egress: Egress) {
            told.push(egress);
            const work = works.get(spec.id);
            works.delete(spec.id);
            await work?.();
          },
        });
      },
      async adopt(id) {
        looks.set(id, (looks.get(id) ?? 0) + 1);
        const fault = failing.get(id);
        failing.delete(id);
        if (fault !== undefined) throw fault;
        return containers.get(id);
      },
      async remove(id, directory) {
        await containers.get(id)?.[Symbol.asyncDispose]();
        containers.delete(id);
        await base.remove(id, directory);
      },
    },
    failAdoption(id, fault = new Error("the container cannot be looked at now")) {
      failing.set(id, fault);
    },
    failResume(id) {
      const container = containers.get(id);
      const resume = container?.resume.bind(container);
      const fail = async () => {
        Object.assign(container ?? {}, { resume });
        throw new Error("the container cannot be resumed now");
      };
      Object.assign(container ?? {}, { resume: fail });
    },
    atEgress(id, work) {
      works.set(id, work);
    },
    egressOf: (id) => rules.get(id) ?? [],
    setNetwork(network) {
      for (const container of containers.values()) Object.assign(container, { network });
    },
    adoptions: (id) => looks.get(id) ?? 0,
    async [Symbol.asyncDispose]() {
      for (const container of containers.values()) await container[Symbol.asyncDispose]();
    },
  };
}
