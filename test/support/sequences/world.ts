/** What the clients of a random sequence of calls share: the service, its ends, and what was done. */

import { setTimeout as delay } from "node:timers/promises";
import type { Answer, FaultHome } from "../faults/fault-home.ts";
import type { Random } from "../random.ts";
import { Moments } from "./register.ts";

const POLL_MS = 10;
/** A call without an answer by then hangs. */
const ANSWER_LIMIT_MS = 90_000;
/** Between two ends of the service. */
const MAX_UNDISTURBED_CALLS = 60;

/** What no order of calls allows. */
export class SequenceFault extends Error {}

export interface SequenceWorld {
  readonly home: FaultHome;
  readonly moments: Moments;
  /** No call begins after so many. */
  readonly maxCalls: number;
  readonly done: string[];
  calls: number;
  isUp: boolean;
  /** How often the service was ended. */
  ends: number;
  isOver: boolean;
}

export function createSequenceWorld(home: FaultHome, maxCalls: number): SequenceWorld {
  const moments = new Moments();
  return { home, moments, maxCalls, done: [], calls: 0, isUp: true, ends: 0, isOver: false };
}

/**
 * The answer to a call with one of these statuses; undefined when nobody knows what became of it,
 * because the service was ended meanwhile.
 * @throws SequenceFault for any other answer, and for none.
 */
export async function ask(
  world: SequenceWorld,
  { words, statuses }: { readonly words: string; readonly statuses: readonly number[] },
  call: () => Promise<Answer | undefined>,
): Promise<Answer | undefined> {
  while (!world.isUp) await delay(POLL_MS);
  const { ends } = world;
  world.calls += 1;
  const answer = await Promise.race([call(), hangs(words)]);
  const isDisturbed = world.ends !== ends;
  world.done.push(`${words} -> ${answer?.status} ${JSON.stringify(answer?.body)?.slice(0, 200)}`);
  if (answer !== undefined && statuses.includes(answer.status)) return answer;
  if (isDisturbed && (answer === undefined || answer.status >= 500)) return undefined;
  throw new SequenceFault(`${words}: ${JSON.stringify(answer)?.slice(0, 500)}`);
}

async function hangs(words: string): Promise<never> {
  await delay(ANSWER_LIMIT_MS, undefined, { ref: false });
  throw new SequenceFault(`${words}: no answer`);
}

/** Ends the service again and again, and starts it anew. */
async function disturb(world: SequenceWorld, random: Random): Promise<void> {
  const { home, done } = world;
  for (;;) {
    const until = world.calls + 1 + random.below(MAX_UNDISTURBED_CALLS);
    const kind = random.pick(["SIGKILL", "SIGKILL", "SIGTERM"] as const);
    while (world.calls < until && !world.isOver) await delay(POLL_MS);
    if (world.isOver) return;
    done.push(kind);
    world.isUp = false;
    world.ends += 1;
    await home.stop(kind);
    await home.start();
    world.isUp = true;
  }
}

/**
 * Runs the clients until all are done, while the service is ended at times.
 * @throws Error with what was done last, where one of them fails.
 */
export async function runSequences(
  world: SequenceWorld,
  random: Random,
  clients: readonly (() => Promise<void>)[],
): Promise<void> {
  const running = clients.map((run) => run());
  const all = Promise.all(running).finally(() => {
    world.isOver = true;
  });
  try {
    await Promise.all([all, disturb(world, random)]);
  } catch (error) {
    Object.assign(world, { isOver: true, calls: world.maxCalls, isUp: true });
    await Promise.allSettled(running);
    const done = world.done.slice(-300).join("\n");
    const text = `${String(error)}\n${done}\n${world.home.stderr().slice(-4_000)}`;
    throw new Error(text, { cause: error });
  }
}
