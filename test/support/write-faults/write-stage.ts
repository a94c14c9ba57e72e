/** A service on a home in which single writes fail: it is asked, and what it then says and holds is compared. */

import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { listAll } from "../faults/fault-home.ts";
import { openFaultStage, type FaultStage } from "../faults/fault-stage.ts";
import { FAULT_KINDS, type FaultPlan, type Writes } from "./faults.ts";
import { openFaultyHome, type FaultyHome } from "./faulty-home.ts";
import {
  compareContents,
  compareLists,
  createModel,
  GONE,
  note,
  type Model,
  type World,
} from "./model.ts";
import type { Told, WriteOperation } from "./operations.ts";

/** Small disks are made and copied quickly; every start goes through every step of one. */
const FLAGS = ["--disk-mb", "64", "--volume-mb", "64"];
/** Longer than a pause that is tried again for as long as it may be. */
const ANSWER_LIMIT_MS = 60_000;
/** It tells of a number cut in two; the engine compares the ids of the process with those it gave. */
const RUNTIME_PATTERN = /^(?:crun|runc) write \S+\/pid$/;
const SUCCESS = 300;
const CLIENT_FAULT = 400;
const SERVICE_FAULT = 500;

export interface WriteCase {
  readonly isHit: boolean;
  /** Undefined: no answer. */
  readonly status: number | undefined;
  /** One line each. */
  readonly faults: readonly string[];
}

export interface WriteStage extends AsyncDisposable {
  /** Does it without a fault. */
  count(operation: WriteOperation): Promise<Writes>;
  /** Does it with one. */
  fail(operation: WriteOperation, plan: FaultPlan): Promise<WriteCase>;
  /** Ends and starts the service, and reads everything that was acknowledged since the last time; removes it. */
  restart(): Promise<readonly string[]>;
  stderr(): string;
}

/** Each place of an operation, each time, in each way. */
export function plansOf(writes: Writes): readonly FaultPlan[] {
  return writes.flatMap(({ place, times, canBeShort }) =>
    Array.from({ length: times }, (_none, index) => index + 1).flatMap((time) =>
      FAULT_KINDS.filter((kind) => canBeShort || kind !== "short write").map((kind) => ({
        place,
        time,
        kind,
      })),
    ),
  );
}

export async function openWriteStage(flags: readonly string[]): Promise<WriteStage> {
  await using stack = new AsyncDisposableStack();
  let opened: FaultyHome | undefined;
  const makeHome = async () => (opened = await openFaultyHome());
  const stage = stack.use(await openFaultStage([...flags, ...FLAGS], makeHome));
  if (opened === undefined) throw new Error("no home");
  const files = opened;
  const { home } = stage;
  const model = createModel();
  const world: World = { home, model };
  const own = await seenNow(world);
  let word = 0;

  async function perform(operation: WriteOperation, plan?: FaultPlan) {
    word += 1;
    const subject = await operation.prepare(world, `w${word}`);
    await files.begin(plan);
    const told = await within(operation.act(home, subject, world));
    const faults = await settle(stage);
    const { writes, isHit } = await files.end();
    return { subject, told, faults, writes, isHit };
  }

  const stop = async () => {
    if (home.isRunning()) await home.stop("SIGTERM");
    await home.start();
  };

  const owned = stack.move();
  return {
    async count(operation) {
      const { subject, told, faults, writes } = await perform(operation);
      if (told === undefined || told.status >= SUCCESS || faults.length > 0) {
        throw new Error(`${operation.name}: ${JSON.stringify(told)} ${faults.join("\n")}`);
      }
      note(model, operation.effects(subject, told, model), true);
      return writes;
    },
    async fail(operation, plan) {
      const first = await perform(operation, plan);
      const { subject, told, isHit } = first;
      const answer = { operation, plan, told, home: home.path };
      const faults = [...first.faults, ...findAnswerFaults(answer)];
      const isDone = told !== undefined && told.status < SUCCESS;
      if (isDone) note(model, operation.effects(subject, told, model), true);
      else if (operation.mayBeDone === true) {
        note(model, operation.effects(subject, told, model), false);
      }
      if (!home.isRunning()) {
        if (operation.isLocal !== true) faults.push("the service ended");
        await home.start();
      }
      faults.push(...(await compareLists(world)));
      if (!isDone) {
        const again = await within(operation.act(home, subject, world));
        const isFine = again !== undefined && again.status < SUCCESS;
        if (isFine) note(model, operation.effects(subject, again, model), true);
        else if (operation.again?.includes(again?.status ?? 0) !== true) {
          faults.push(`the same call again: ${JSON.stringify(again)}`);
        }
        faults.push(...(await settle(stage)), ...(await compareLists(world)));
      }
      return { isHit, status: told?.status, faults };
    },
    async restart() {
      await stop();
      const faults = [
        ...(await settle(stage)),
        ...(await compareLists(world)),
        ...(await compareContents(world)),
      ];
      await clear(stage, model, own);
      return faults;
    },
    stderr: () => home.stderr(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What is there now was made by the stage, which looks after it. */
async function seenNow(world: World): Promise<ReadonlySet<string>> {
  const { model } = world;
  // Strangers are told one by one, with their names.
  for (const line of await compareLists(world)) {
    const [, thing = "", value = ""] = /^(\S+ \S+) is (.*), and nobody was told$/.exec(line) ?? [];
    note(model, [[thing, value]], true);
  }
  return new Set(model.things.keys());
}

async function within(told: Promise<Told>): Promise<Told> {
  const stop = new AbortController();
  const late = delay(ANSWER_LIMIT_MS, undefined, { signal: stop.signal }).catch(() => undefined);
  try {
    return await Promise.race([told, late]);
  } finally {
    stop.abort();
  }
}

/** Everything that follows from the call is done then; the lines of logs, which wait for others, are written. */
async function settle(stage: FaultStage): Promise<string[]> {
  const { home } = stage;
  if (!home.isRunning()) return [];
  try {
    await stage.expectTruth();
    const [first] = await listAll(home);
    await home.call("GET", `/v2/sandboxes/${first?.sandboxID}/logs`);
    return [];
  } catch (error) {
    return [`database, machine and API differ: ${String(error)}`];
  }
}

interface ToldCase {
  readonly operation: WriteOperation;
  readonly plan: FaultPlan;
  readonly told: Told;
  readonly home: string;
}

function findAnswerFaults({ operation, plan, told, home }: ToldCase): string[] {
  const { kind, place } = plan;
  if (told === undefined) return ["no answer"];
  const { status, body } = told;
  if (status < SUCCESS) return [];
  const text = JSON.stringify(body);
  const faults: string[] = [];
  if (status >= CLIENT_FAULT && status < SERVICE_FAULT) faults.push(`refused: ${status} ${text}`);
  if (kind === "short write" && !RUNTIME_PATTERN.test(place))
    faults.push(`a short write is no fault: ${status} ${text}`);
  if (operation.isLocal !== true && text.includes(dirname(home)))
    faults.push(`names a path: ${text}`);
  const hasMessage = typeof body === "object" && body !== null && "message" in body;
  if (!hasMessage) faults.push(`says nothing: ${status} ${text}`);
  return faults;
}

async function clear(stage: FaultStage, model: Model, own: ReadonlySet<string>): Promise<void> {
  await stage.clear();
  for (const [thing, values] of model.things) {
    if (own.has(thing)) continue;
    const [kind, name = ""] = thing.split(" ");
    if (kind === "template" && !values.includes(GONE)) {
      await stage.home.call("DELETE", `/templates/${name.split("/").at(-1)}`);
    }
    model.things.delete(thing);
  }
  model.tokens.clear();
}
