/** One running container as its user sees it; everything it needs to know is in its folder. */

import { watch, type FSWatcher } from "node:fs";
import { join } from "node:path";
import { SandboxError } from "../common/errors.ts";
import type { Cgroup } from "./cgroups.ts";
import type { Container, ContainerExit } from "./engine.ts";
import { makeLayer } from "./layers.ts";
import { dialControlSocket, dialPort } from "./network.ts";
import { readStartTicks, type ContainerRecord } from "./record.ts";
import { removeContainer } from "./removal.ts";
import { copyUpper } from "./snapshot.ts";

/** The kernel tells of the end at once where it can; this is for hosts where it cannot. */
const WATCH_INTERVAL_MS = 1_000;

const ENDED = "init ended";

export interface ContainerParts {
  readonly directory: string;
  readonly record: ContainerRecord;
  readonly cgroup: Cgroup;
}

/** A handle on a container that runs; it watches for its end until then. */
export function openContainer(parts: ContainerParts): Container {
  const { directory, record, cgroup } = parts;
  const life = watchLife(parts);
  let removal: Promise<void> | undefined;
  return {
    id: record.id,
    exit: life.exit,
    level: record.level,
    dial: async (port, signal) => dialPort(directory, port, signal),
    dialControl: async (signal) => dialControlSocket(directory, signal),
    pause: async () => cgroup.freeze(),
    resume: async () => cgroup.thaw(),
    snapshot: async (target) => makeLayer(target, async (draft) => copyFrozen(parts, draft)),
    [Symbol.asyncDispose]: async () => {
      life.expect("killed");
      removal ??= removeContainer(directory, cgroup).finally(() => life.end());
      await removal;
    },
  };
}

/** Processes stand still for the copy and go on before it is synced. */
async function copyFrozen({ directory, record, cgroup }: ContainerParts, target: string) {
  const wasFrozen = await cgroup.isFrozen();
  await cgroup.freeze();
  try {
    await copyUpper({ directory, idBase: record.idBase }, target);
  } finally {
    if (!wasFrozen) await cgroup.thaw();
  }
}

interface Life {
  readonly exit: Promise<ContainerExit>;
  /** Why the end, when it comes, came. */
  expect(reason: string): void;
  end(): void;
}

/** Resolves when PID 1 is gone: the kernel ends every other process of the container with it. */
function watchLife({ record, cgroup }: ContainerParts): Life {
  const { promise, resolve } = Promise.withResolvers<ContainerExit>();
  let reason = ENDED;
  const timer = setInterval(() => check(), WATCH_INTERVAL_MS).unref();
  const watcher = watchEvents(cgroup, () => check());
  const end = () => {
    clearInterval(timer);
    watcher?.close();
    resolve({ reason });
  };
  const settle = async () => {
    if (!(await isOver(record))) return;
    if (reason === ENDED && (await cgroup.countOutOfMemory()) > 0) reason = "out of memory";
    end();
  };
  // A look that fails says nothing about the container; the timer brings the next one.
  const check = () => void settle().catch(() => watcher?.unref());
  return {
    exit: promise,
    expect: (expected) => {
      reason = expected;
    },
    end,
  };
}

function watchEvents(cgroup: Cgroup, onChange: () => void): FSWatcher | undefined {
  if (cgroup.unified === undefined) return undefined;
  const watcher = watch(join(cgroup.unified, "cgroup.events"), { persistent: false }, onChange);
  // The folder goes with the container; a watch that fails otherwise leaves the timer.
  watcher.on("error", () => watcher.close());
  return watcher;
}

async function isOver(record: ContainerRecord): Promise<boolean> {
  return (await readStartTicks(record.pid)) !== record.startTicks;
}

/** @throws SandboxError invalid_argument for an id that could not be a cgroup's name. */
export function checkId(id: string): void {
  if (!/^[a-z0-9]{1,64}$/.test(id)) {
    throw new SandboxError("invalid_argument", `not a container id: ${JSON.stringify(id)}`);
  }
}
