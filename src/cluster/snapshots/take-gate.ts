/**
 * Places for what one front does at once in Pods, such as the images that it makes: one for a sandbox, some for a team, so that neither
 * two images of one sandbox are made at once, nor one team keeps all others waiting.
 */

import { SandboxError } from "../../common/errors.ts";

export interface TakeBounds {
  /** Each compresses and keeps a connection to a Pod and to the registry. */
  readonly atOnce: number;
  readonly perTeam: number;
  /** Requests of one team that wait. */
  readonly waitingPerTeam: number;
  /** How long a request waits. */
  readonly waitMs: number;
  /** What they are places for, as a refusal names it. */
  readonly subject?: string;
}

const BOUNDS: TakeBounds = { atOnce: 6, perTeam: 4, waitingPerTeam: 100, waitMs: 120_000 };
const RETRY_SECONDS = 10;

/** Whose image is made. */
export interface Applicant {
  readonly team: string;
  /** The sandbox: of one key one image is made at once. */
  readonly key: string;
  /** Ends the wait for a place. */
  readonly signal: AbortSignal;
  /** What no client waits for, such as a pause at the timeout, waits as long as it takes. */
  readonly isPatient?: boolean;
}

export interface TakeGate {
  /**
   * Runs the task when there is a place: of those that wait the team with the fewest tasks is first, then
   * who came first; of its team a request is before what no client waits for.
   * @throws SandboxError canceled, unavailable for a request that waited too long or is one too many
   */
  run<T>(applicant: Applicant, task: () => Promise<T>): Promise<T>;
}

interface Waiting {
  readonly applicant: Applicant;
  readonly begin: () => void;
}

export function createTakeGate(bounds: TakeBounds = BOUNDS): TakeGate {
  const { subject = "snapshots and pauses" } = bounds;
  const waiting = new Set<Waiting>();
  const running = new Set<Applicant>();

  function countOf(all: Iterable<Applicant>, wanted: string): number {
    let count = 0;
    for (const { team } of all) if (team === wanted) count += 1;
    return count;
  }

  function mayBegin({ team, key }: Applicant): boolean {
    const isTaken = [...running].some((one) => one.key === key);
    return !isTaken && countOf(running, team) < bounds.perTeam;
  }

  function admit(): void {
    while (running.size < bounds.atOnce) {
      const ready = [...waiting].filter(({ applicant }) => mayBegin(applicant));
      const [first] = ready.toSorted(
        (left, right) =>
          countOf(running, left.applicant.team) - countOf(running, right.applicant.team),
      );
      const next = ready.find((one) => isRequestOf(one, first?.applicant.team)) ?? first;
      if (next === undefined) return;
      waiting.delete(next);
      running.add(next.applicant);
      next.begin();
    }
  }

  function requirePlace({ team, isPatient = false }: Applicant): void {
    const hasting = [...waiting].map(({ applicant }) => applicant).filter((one) => !one.isPatient);
    if (isPatient || countOf(hasting, team) < bounds.waitingPerTeam) return;
    throw noPlace(`too many ${subject} of your team wait`);
  }

  /** Resolves when it has a place. */
  async function enter(applicant: Applicant): Promise<void> {
    requirePlace(applicant);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { signal, isPatient = false } = applicant;
    const own = { applicant, begin: resolve };
    const leave = (fault: SandboxError) => {
      // At once: a place that it is given from now on would never be free again.
      waiting.delete(own);
      reject(fault);
    };
    const cancel = () => leave(new SandboxError("canceled", "no client waits for it any more"));
    const giveUp = () => leave(noPlace(`other ${subject} take all places`));
    const timer = isPatient ? undefined : setTimeout(giveUp, bounds.waitMs);
    signal.addEventListener("abort", cancel, { once: true });
    try {
      if (signal.aborted) cancel();
      else waiting.add(own);
      admit();
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", cancel);
    }
  }

  return {
    async run(applicant, task) {
      // Each call is its own, also of one and the same applicant.
      const own = { ...applicant };
      await enter(own);
      try {
        return await task();
      } finally {
        running.delete(own);
        admit();
      }
    },
  };
}

function isRequestOf({ applicant }: Waiting, team: string | undefined): boolean {
  return applicant.team === team && applicant.isPatient !== true;
}

function noPlace(reason: string): SandboxError {
  return new SandboxError("unavailable", reason, { retryAfterSeconds: RETRY_SECONDS });
}
