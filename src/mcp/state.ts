/** The state that outlives a connection: service, output, logs, watchers, own sandboxes. */

import type { Service } from "../client/service.ts";
import { createSystemClock, type Clock } from "../common/clock.ts";
import { createGate } from "../common/concurrency.ts";
import { signalAfter } from "../common/late-signal.ts";
import type { Logger } from "../common/log.ts";
import { createTurns, type Turns } from "../common/turns.ts";
import { Captures } from "../output/captures.ts";
import { SandboxLogs } from "../output/logs.ts";
import { startSpools } from "../spool/spools.ts";
import { createCellOrder, type CellOrder } from "./code/cell-order.ts";
import { forgetEndedSandboxes } from "./ended-sandboxes.ts";
import { createTasks } from "./tasks.ts";
import { Watchers } from "./watch/watchers.ts";

/**
 * What happens to the sandboxes of a server at its end: it kills those that it made, its service
 * ends them with itself, or they are left to their time to live.
 */
export type OnExit = "kill" | "service_ends" | "leave";

/** Shared by all connections of one server. Disposal ends the sandboxes as `onExit` says. */
export interface McpState extends AsyncDisposable {
  readonly service: Service;
  readonly clock: Clock;
  readonly log: Logger;
  readonly logs: SandboxLogs;
  readonly captures: Captures;
  readonly cells: CellOrder;
  /** Of the edits in a sandbox: each reads what the one before it wrote. */
  readonly edits: Turns;
  readonly watchers: Watchers;
  /** Fires when the server ends. */
  readonly signal: AbortSignal;
  /** Aborted before that, when calls that wait are to be answered. */
  readonly leaving: AbortController;
  /** The sandboxes that this server made and has not killed. */
  readonly made: ReadonlySet<string>;
  /** Whether a sandbox ends with this server at the latest, a paused one too. */
  endsWithServer(sandboxId: string): boolean;
  /** Records a sandbox that this server made. */
  adopt(sandboxId: string): void;
  /** Drops a sandbox that is gone. */
  forget(sandboxId: string): void;
  /** Records work that the end of the server waits for. */
  track(work: Promise<void>): void;
}

export interface McpStateOptions {
  /** Called during tool calls only. */
  service(): Service;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Where output outlives this server; absent: in memory only. */
  readonly spoolFolder?: string | undefined;
  /** Asked during tool calls and at the end. */
  onExit(): OnExit;
}

/** All kills together; the whole program ends within three seconds. */
const KILL_TIMEOUT_MS = 1_500;
const MAX_KILLS_AT_ONCE = 8;
/** The newest that this server made; whatever it does, its timeout ends one that is older. */
const MAX_MADE = 4_096;

/** The shared state of a server; the service stays its caller's. */
export function startMcpState(options: McpStateOptions): McpState {
  const { log, clock = createSystemClock() } = options;
  const get = (id: string, wanted: AbortSignal) => options.service().control.get(id, wanted);
  const spools = startSpools({ root: options.spoolFolder, clock, log });
  const logs = new SandboxLogs({ clock, spools, log });
  const captures = new Captures({
    clock,
    logs,
    spools,
    log,
    isRunning: async (id, wanted) => (await get(id, wanted)).state === "running",
  });
  const watchers = new Watchers({ clock, log });
  const made = new Set<string>();
  const tasks = createTasks({ clock, log });
  const stop = new AbortController();

  const killMade = (late: AbortSignal) => killAll(made, options, late);
  const { signal } = stop;
  const forget = (sandboxId: string) => drop(sandboxId, { made, watchers, logs });
  const looking = forgetEndedSandboxes({ clock, logs, get, forget, signal });
  return {
    get service() {
      return options.service();
    },
    clock,
    log,
    logs,
    captures,
    cells: createCellOrder(),
    edits: createTurns(),
    watchers,
    made,
    signal,
    leaving: new AbortController(),
    endsWithServer: (sandboxId) => made.has(sandboxId) && options.onExit() !== "leave",
    adopt(sandboxId) {
      made.add(sandboxId);
      const [oldest] = made;
      if (made.size > MAX_MADE && oldest !== undefined) made.delete(oldest);
      logs.open(sandboxId);
    },
    forget,
    track: (work) => tasks.track(work),
    async [Symbol.asyncDispose]() {
      stop.abort();
      const late = signalAfter(KILL_TIMEOUT_MS);
      const isKilling = options.onExit() === "kill";
      if (isKilling) {
        for (const sandboxId of made) watchers.forget(sandboxId);
      }
      // The kills wait for nothing: the program is forced to end soon.
      const killing = isKilling ? killMade(late) : Promise.resolve();
      await Promise.all([looking, tasks.ended(), captures[Symbol.asyncDispose]()]);
      await Promise.all([watchers[Symbol.asyncDispose](), logs[Symbol.asyncDispose]()]);
      await spools[Symbol.asyncDispose]();
      await killing;
      // A create that was answered meanwhile.
      if (isKilling) await killMade(late);
    },
  };
}

/** Removes from the set what it killed. */
async function killAll(
  made: Set<string>,
  options: McpStateOptions,
  signal: AbortSignal,
): Promise<void> {
  const gate = createGate(MAX_KILLS_AT_ONCE);
  const kill = async (sandboxId: string) => {
    try {
      await options.service().control.kill(sandboxId, signal);
      made.delete(sandboxId);
    } catch (error) {
      options.log.warn({ op: "sandbox.kill", sandboxId, err: error }, "sandbox left behind");
    }
  };
  // Most of the oldest have ended by themselves: the time is for those that live.
  const newestFirst = [...made].toReversed();
  await Promise.all(newestFirst.map((id) => gate.run(() => kill(id))));
}

interface Kept extends Pick<McpState, "logs" | "watchers"> {
  readonly made: Set<string>;
}

function drop(sandboxId: string, { made, watchers, logs }: Kept): void {
  made.delete(sandboxId);
  watchers.forget(sandboxId);
  logs.close(sandboxId);
}
