/** An engine whose containers stop in the middle of an operation, for as long as a test wants. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { SandboxError } from "../../../src/common/errors.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { createLayerEngine } from "./layer-engine.ts";

type Operation = "pause" | "halt" | "snapshot" | "end";

/** An operation that stands still. */
export interface Hold extends Disposable {
  /** Resolves when a container has come to it. */
  readonly reached: Promise<void>;
  /** Lets it fail instead of going on. */
  fail(): void;
}

export interface HeldEngine {
  readonly engine: Engine;
  /** Holds the next operation of this kind until it is disposed of. */
  hold(operation: Operation): Hold;
  /** Makes the next so many starts fail. */
  failStarts(amount: number): void;
  /** Makes the daemons of all sandboxes answer nobody until it is disposed of. */
  silence(): Disposable;
  /** Leads what the host asks of the daemons of new sandboxes to this port until it is disposed of. */
  replaceDaemons(port: number): Disposable;
  /** Breaks the next so many connections to daemons once they are made. */
  breakConnections(amount: number): void;
}

export function createHeldEngine(): HeldEngine {
  const layered = createLayerEngine();
  const holds = new Map<Operation, { reach(): void; readonly released: Promise<void> }>();
  let failures = 0;
  let isSilent = false;
  let broken = 0;
  let daemonPort: number | undefined;

  async function answer(signal: AbortSignal, dial: () => Promise<Socket>): Promise<Socket> {
    if (broken > 0) {
      broken -= 1;
      const socket = await dial();
      return socket.destroy();
    }
    if (!isSilent) return dial();
    await once(signal, "abort");
    throw new SandboxError("deadline_exceeded", "no answer");
  }

  async function pass(operation: Operation): Promise<void> {
    const hold = holds.get(operation);
    holds.delete(operation);
    hold?.reach();
    await hold?.released;
  }

  return {
    engine: {
      ...layered,
      async create(spec, signal) {
        if (failures > 0) {
          failures -= 1;
          throw new SandboxError("unavailable", "no start now");
        }
        const container = await layered.create(spec, signal);
        const pause = container.pause.bind(container);
        const halt = container.halt.bind(container);
        const snapshot = container.snapshot.bind(container);
        const readUsage = container.readUsage.bind(container);
        const end = container[Symbol.asyncDispose].bind(container);
        const dialControl = container.dialControl.bind(container);
        const dialPublic = container.dialPublic.bind(container);
        return Object.assign(container, {
          dialControl: async (limit: AbortSignal) =>
            daemonPort === undefined ? dialControl(limit) : connect(daemonPort, "127.0.0.1"),
          dialPublic: async (limit: AbortSignal) => answer(limit, async () => dialPublic(limit)),
          pause: async () => pass("pause").then(() => pause()),
          // Half way: its programs have ended.
          halt: async () => halt().then(() => pass("halt")),
          snapshot: async (directory: string) => pass("snapshot").then(() => snapshot(directory)),
          // As an engine with cgroups counts.
          readUsage: async () => ({ ...(await readUsage()), outOfMemoryKills: 0 }),
          [Symbol.asyncDispose]: async () => pass("end").then(() => end()),
        });
      },
    },
    hold(operation) {
      const reached = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      holds.set(operation, { reach: reached.resolve, released: released.promise });
      return {
        reached: reached.promise,
        fail: () => released.reject(new SandboxError("unavailable", `no ${operation} now`)),
        [Symbol.dispose]: released.resolve,
      };
    },
    silence() {
      isSilent = true;
      return {
        [Symbol.dispose]() {
          isSilent = false;
        },
      };
    },
    replaceDaemons(port) {
      daemonPort = port;
      return {
        [Symbol.dispose]() {
          daemonPort = undefined;
        },
      };
    },
    breakConnections(amount) {
      broken = amount;
    },
    failStarts(amount) {
      failures = amount;
    },
  };
}
