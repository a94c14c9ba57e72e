/**
 * The guardian of a service: one shell program, `guardian.sh`, that ends the containers when the
 * service was killed, and later at their times to live. It has a session of its own and runs while
 * there is a container.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { readIfThere } from "../../common/files.ts";
import type { Container, Guard, GuardOptions } from "../engine.ts";
import { findProgram, PROGRAM_ENVIRONMENT } from "../host/find-program.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { killGroup } from "../host/run-program.ts";
import { groupFolders, type CgroupHost } from "./cgroups.ts";

/** In the folder of an instance: number and start of its guardian. */
const GUARDIAN_NAME = "guardian";
/** One that ends by itself again and again is started less and less often. */
const RESTART_MS = { first: 20, max: 10_000 } as const;
/** It does nothing but read a line before it ends. */
const END_TIMEOUT_MS = 2_000;

interface Guardian extends Guard {
  /** A container is about to be started, or was adopted. */
  hold(id: string): void;
  /** A container is gone. */
  release(id: string): void;
}

/** The guardian of one engine, from the moment that a service asks for it. */
export interface Guards {
  /** Whether the guardian reads deadlines. */
  readonly hasDeadlines: boolean;
  /** Guards every container that is started from now on. */
  start(host: CgroupHost, options: GuardOptions): Promise<Guard>;
  /** Guards a container before its first process is there, until the last one is gone. */
  create(id: string, start: () => Promise<Container>): Promise<Container>;
  /** The same of one that an earlier process made; after a fault it may live, until it is released. */
  adopt(id: string, find: () => Promise<Container | undefined>): Promise<Container | undefined>;
  /** A container was removed. */
  release(id: string): void;
}

/** No guardian runs before `start` and the first container. */
export function createGuards(program: string): Guards {
  let guardian: Guardian | undefined;
  let hasDeadlines = false;
  const release = (id: string) => guardian?.release(id);
  const untilExit = <T extends Container | undefined>(id: string, container: T): T => {
    if (container === undefined) release(id);
    else void container.exit.then(() => release(id));
    return container;
  };
  return {
    get hasDeadlines() {
      return hasDeadlines;
    },
    async start(host, options) {
      guardian = await createGuardian(program, host, options);
      hasDeadlines = options.rule === "leave";
      return guardian;
    },
    async create(id, start) {
      guardian?.hold(id);
      try {
        return untilExit(id, await start());
      } catch (error) {
        release(id);
        throw error;
      }
    },
    async adopt(id, find) {
      guardian?.hold(id);
      return untilExit(id, await find());
    },
    release,
  };
}

/** Ends the guardian that an earlier process of the instance left, then stands ready. */
async function createGuardian(
  program: string,
  host: CgroupHost,
  { directory, rule }: GuardOptions,
): Promise<Guardian> {
  await endGuardian(directory);
  const { unified = "-", freezer = "-" } = groupFolders(host);
  const command = [program, rule, directory, unified, freezer];
  const held = new Set<string>();
  const ends = new Set<Promise<void>>();
  let child: ChildProcess | undefined;
  let restartMs: number = RESTART_MS.first;
  let isOver = false;

  function start(): void {
    if (isOver || child !== undefined || held.size === 0) return;
    const startedAtMs = performance.now();
    const started = spawnGuardian(command);
    child = started;
    const onEnd = (): void => {
      if (child !== started) return;
      child = undefined;
      // It was killed, or never came about: there has to be another one.
      if (performance.now() - startedAtMs > RESTART_MS.max) restartMs = RESTART_MS.first;
      setTimeout(start, restartMs).unref();
      restartMs = Math.min(restartMs * 2, RESTART_MS.max);
    };
    started.once("error", onEnd);
    started.once("exit", onEnd);
    noteGuardian(directory, started.pid);
  }

  function end(): void {
    if (child === undefined) return;
    const ending = tellEnd(child).finally(() => ends.delete(ending));
    ends.add(ending);
    child = undefined;
    restartMs = RESTART_MS.first;
  }

  return {
    hold(id) {
      held.add(id);
      start();
    },
    release(id) {
      if (held.delete(id) && held.size === 0) end();
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      // What is still there is its business from now on: the end of its input tells it.
      if (held.size > 0) child?.stdin?.destroy();
      else end();
      await Promise.all(ends);
      if (held.size === 0) await rm(join(directory, GUARDIAN_NAME), { force: true });
    },
  };
}

/** Ends the guardian of an instance that is no more. Idempotent. */
export async function endGuardian(directory: string): Promise<void> {
  const path = join(directory, GUARDIAN_NAME);
  const [pid = "", ticks = ""] = ((await readIfThere(path)) ?? "").trim().split(" ");
  // Its number may be another process's by now.
  if (/^[1-9][0-9]*$/.test(pid) && readStartTicks(Number(pid)) === ticks) killGroup(Number(pid));
  await rm(path, { force: true });
}

/** Without the file, as on a full disk, no later service finds it: it ends when it finds that one's. */
function noteGuardian(directory: string, pid: number | undefined): void {
  if (pid === undefined) return;
  const path = join(directory, GUARDIAN_NAME);
  try {
    writeFileSync(path, `${pid} ${readStartTicks(pid)}\n`, { mode: 0o600 });
  } catch {
    // The containers are guarded; a start does not fail for it.
  }
}

function spawnGuardian(words: readonly string[]): ChildProcess {
  // Of the usual shells this one takes the least memory.
  const shell = findProgram("dash") ?? "sh";
  const child: ChildProcess = spawn(shell, [...words], {
    cwd: "/",
    env: PROGRAM_ENVIRONMENT,
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  // One that was killed is missed by its exit; one that was not started may have no input.
  child.stdin?.on("error", () => undefined);
  child.unref();
  return child;
}

async function tellEnd(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  // This process may have nothing else left to wait for: without it, it would end before its clean-up.
  child.ref();
  const exit = once(child, "exit").catch(() => undefined);
  child.stdin?.end("end\n");
  const isLate = delay(END_TIMEOUT_MS, "late", { ref: false });
  if ((await Promise.race([exit, isLate])) === "late") killGroup(child.pid);
}
