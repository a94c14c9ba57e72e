/**
 * Moves the memory of paused sandboxes from their processes to disk: some time after their pause, and
 * at the end of the service. A move that fails leaves the sandbox paused as it was and is tried again.
 */

import { createBackoff, type Backoff } from "../../common/backoff.ts";
import { sleepUnlessWoken, type Clock } from "../../common/clock.ts";
import { createGate } from "../../common/concurrency.ts";
import { step } from "../../common/steps.ts";
import { createTeamTurns } from "../../common/team-turns.ts";
import { findMemoryFault } from "../builds/memory.ts";
import type { SandboxContext, SandboxEntry } from "../context.ts";
import { startExpiry } from "../expiry.ts";
import { changeState, whenIdle } from "../registry.ts";

/** Each writes at the speed of the disk. */
const MOVES_AT_ONCE = 2;
/** A move that takes longer gives its place to another one, and goes on. */
const PLACE_MS = 10_000;
/** Under way and waiting for a place; the others of the team wait for these. */
const TURNS = { maxAtOnce: 4, maxWaiting: Infinity };
const FIRST_RETRY_MS = 1_000;
/** What prevents a move may stay for as long as the sandbox is paused. */
const MAX_RETRY_MS = 60_000;
const MS_PER_S = 1_000;

export interface PauseToDisk {
  /** Seconds after the pause; undefined for never while the service runs. */
  readonly afterSeconds: number | undefined;
  /** Whether the service moves what is paused when it ends. */
  readonly isAtExit: boolean;
}

export interface DiskMoves extends AsyncDisposable {
  /** Looks again: a sandbox may have been paused. */
  note(): void;
  /** At the end of the service, after all changes: moves what can be moved, once. */
  moveAll(): Promise<void>;
}

interface Retry {
  readonly backoff: Backoff;
  /** On the monotonic clock. */
  readonly atElapsedMs: number;
}

/** Moves until it is disposed of, which waits for moves under way. */
export function startDiskMoves(
  context: SandboxContext,
  rules: PauseToDisk = { afterSeconds: undefined, isAtExit: false },
): DiskMoves {
  const { clock, closing, entries, log } = context;
  const retries = new WeakMap<SandboxEntry, Retry>();
  const inTurn = createMoveTurns(clock);
  const moves = new Map<SandboxEntry, Promise<void>>();

  const retryOf = (entry: SandboxEntry) => {
    const retry = retries.get(entry);
    return retry === undefined ? 0 : clock.now() + retry.atElapsedMs - clock.elapsed();
  };
  const dueOf = (entry: SandboxEntry, afterSeconds: number) =>
    Math.max(entry.record.endAtMs + afterSeconds * MS_PER_S, retryOf(entry));

  function waiting(): SandboxEntry[] {
    return [...entries.values()].filter((entry) => !moves.has(entry) && isMovable(context, entry));
  }

  function next(): number | undefined {
    const { afterSeconds } = rules;
    if (afterSeconds === undefined || closing.aborted) return undefined;
    const times = waiting().map((entry) => dueOf(entry, afterSeconds));
    return times.length === 0 ? undefined : Math.min(...times);
  }

  function moveDue(): void {
    const { afterSeconds } = rules;
    if (afterSeconds === undefined) return;
    const nowMs = clock.now();
    for (const entry of waiting()) {
      if (dueOf(entry, afterSeconds) > nowMs) continue;
      const isWanted = () => !closing.aborted && dueOf(entry, afterSeconds) <= clock.now();
      const moving = inTurn(entry, () => attempt(entry, isWanted));
      moves.set(entry, moving);
      void moving.finally(() => {
        moves.delete(entry);
        timer.note();
      });
    }
  }

  /** It never rejects. */
  async function attempt(entry: SandboxEntry, isWanted: () => boolean): Promise<void> {
    const { sandboxId } = entry.record;
    try {
      await whenIdle(entry, async () => {
        if (isWanted() && isMovable(context, entry)) await move(context, entry);
      });
      retries.delete(entry);
    } catch (error) {
      const known = retries.get(entry);
      const { backoff } = known ?? { backoff: createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS) };
      retries.set(entry, { backoff, atElapsedMs: clock.elapsed() + backoff.next() });
      log.warn({ op: "sandbox.move", sandboxId, err: error }, "memory stays in the process");
      if (known !== undefined) return;
      context.logBook.note(entry.record, "Memory could not be moved to disk");
    }
  }

  const timer = startExpiry({ clock, log, next, expire: moveDue });
  return {
    note: () => timer.note(),
    async moveAll() {
      if (!rules.isAtExit) return;
      await Promise.all(waiting().map((entry) => inTurn(entry, () => attempt(entry, () => true))));
    },
    async [Symbol.asyncDispose]() {
      await timer[Symbol.asyncDispose]();
      await Promise.all(moves.values());
    },
  };
}

type MoveTurns = (entry: SandboxEntry, work: () => Promise<void>) => Promise<void>;

/** For work that never rejects. */
function createMoveTurns(clock: Clock): MoveTurns {
  const gate = createGate(MOVES_AT_ONCE);
  const turns = createTeamTurns(TURNS);
  return async ({ record }, work) => {
    const leave = await turns.enter({ team: record.team });
    const { moved } = await gate.run(async () => {
      const over = new AbortController();
      const moving = work().finally(() => over.abort());
      await sleepUnlessWoken(clock, PLACE_MS, over.signal);
      return { moved: moving };
    });
    await moved;
    leave?.();
  };
}

/**
 * Whether its memory is in its process and can be moved. One that waits for space on the disk takes
 * none; a daemon that did not answer would not answer after the move.
 */
function isMovable(context: SandboxContext, entry: SandboxEntry): boolean {
  const { change, container, ending, phase, record } = entry;
  if (change !== undefined || ending !== undefined || phase !== "paused") return false;
  if (!record.hasMemory || record.isDaemonUnresponsive || record.pauseReason === "disk_full") {
    return false;
  }
  // A halt that was begun is gone through with.
  if (container.isHalted) return container.owesHalt;
  const build = context.store.builds.get(record.buildId);
  return build !== undefined && findMemoryFault(entry, build, true) === undefined;
}

/** Only for callers that found no change under way. */
async function move(context: SandboxContext, entry: SandboxEntry): Promise<void> {
  const { container } = entry;
  const { sandboxId } = entry.record;
  await changeState(context, { entry, during: "pausing" }, async () => {
    entry.follower?.[Symbol.dispose]();
    entry.follower = undefined;
    if (container.isHalted) await container.halt();
    else await save(context, entry);
    await step("move.committed");
    return "paused";
  });
  context.logBook.note(entry.record, "Memory moved to disk");
  context.log.info({ op: "sandbox.move", sandboxId, outcome: "ok" }, "sandbox.move ok");
}

async function save(context: SandboxContext, { container }: SandboxEntry): Promise<void> {
  const { memoryBytes } = await container.readUsage();
  await context.copies.during(context.directory, memoryBytes, () => container.haltWithMemory());
}
