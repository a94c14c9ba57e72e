/** Whether a process, or a child of it, was ended for lack of memory: the kernel's counter tells. */

import { signalAfter } from "../../common/late-signal.ts";
import type { Capture, ProcessView } from "../../output/capture.ts";
import type { MetricBody, SandboxDetailBody } from "../../wire/control.ts";
import type { ToolContext } from "../tool.ts";

/** What a shell reports for a child that SIGKILL ended. */
const KILLED_EXIT_CODE = 137;
const LOOK_TIMEOUT_MS = 2_000;
/** The kernel counts the kill before the process is gone, and we learn of its end later still. */
const NOTICE_MS = 250;
/** Samples come every 5 s; the clocks of service and server may differ. */
const RANGE_MARGIN_SECONDS = 60;
/** A sandbox gets its first sample within 5 s; until then its counter began at 0. */
const YOUNG_MS = 10_000;
const MS_PER_SECOND = 1_000;
/** What shells, make and compilers print about a child that SIGKILL ended. */
const TELLS_KILL = /\bKilled\b|SIGKILL|\bsignal:? 9\b/;
const TAIL_BYTES = 4_096;

type EndedProcess = ProcessView & Partial<Pick<Capture, "isKillSent">>;
type LookContext = Pick<ToolContext, "service" | "suggest" | "clock">;
/** `unknown` where the service does not count, or the counter grew, but not at the end. */
type Verdict = "out of memory" | "other cause" | "unknown";

/** The kernel's counter at the start of a process, before its end and after it. */
export interface Kills {
  readonly start: number | undefined;
  readonly before: number | undefined;
  readonly after: number | undefined;
}

/** The cause of an end by SIGKILL with the limit of memory; undefined for any other end. */
export async function memoryFact(
  process: EndedProcess,
  context: LookContext,
): Promise<string | undefined> {
  const { state } = process;
  if (state.kind !== "ended" || state.exitCode === 0 || process.isKillSent === true) {
    return undefined;
  }
  const isKilledCode = state.exitCode === KILLED_EXIT_CODE;
  // A process that chose its exit code was not killed itself.
  const isExit = state.reason.startsWith("exit status");
  const isKilled = state.reason.startsWith("signal: killed") || (isKilledCode && !isExit);
  if (!isKilled && !isKilledCode && !(await tellsKill(process))) return undefined;
  const { kills, memoryMb } = await look(process, context);
  const has = memoryMb === undefined ? "" : `: the sandbox has ${memoryMb} MB in all`;
  const more = `${has}${context.suggest("get_metrics", "; get_metrics shows its use")}`;
  if (isKilledCode && isExit) return shellFact(compare(kills), more);
  if (!isKilled) {
    if (!grewMeanwhile(kills)) return undefined;
    return `the kernel killed a process of this sandbox meanwhile: out of memory${more}`;
  }
  const verdict = compare(kills);
  if (verdict === "other cause") {
    return "killed by SIGKILL, which this server did not send; not for lack of memory";
  }
  const cause = verdict === "out of memory" ? "out of memory" : "most likely out of memory";
  return `killed, and not by this server: ${cause}${more}`;
}

/** Of a shell, or of a program that ends with the same code. */
function shellFact(verdict: Verdict, more: string): string {
  if (verdict === "out of memory") {
    return `a program that it ran was killed, and not by this server: out of memory${more}`;
  }
  const meaning = `shells return ${KILLED_EXIT_CODE} for a program that SIGKILL ended`;
  const isOther = verdict === "other cause";
  return isOther
    ? `${meaning}; not for lack of memory`
    : `${meaning}: perhaps out of memory${more}`;
}

/** Where no sample was taken a count is undefined; one that fell begins anew after a boot. */
export function compare({ start, before, after }: Kills): Verdict {
  if (after === undefined) return "unknown";
  if (after === 0) return "other cause";
  if (before !== undefined && after !== before) return "out of memory";
  return start === after ? "other cause" : "unknown";
}

/** Whether the kernel ended something for lack of memory during the life of the process. */
export function grewMeanwhile({ start, after }: Kills): boolean {
  return start !== undefined && after !== undefined && after > 0 && after !== start;
}

async function tellsKill({ output }: EndedProcess): Promise<boolean> {
  const from = Math.max(output.totalBytes - TAIL_BYTES, 0);
  const pieces = await output.pieces(from, TAIL_BYTES);
  return TELLS_KILL.test(Buffer.concat(pieces.map(({ bytes }) => bytes)).toString("latin1"));
}

async function look(
  process: EndedProcess,
  { service, clock }: LookContext,
): Promise<{ readonly kills: Kills; readonly memoryMb: number | undefined }> {
  const endedAtMs = process.endedAtMs ?? clock.now();
  const range = {
    start: Math.max(Math.floor(process.startedAtMs / MS_PER_SECOND) - RANGE_MARGIN_SECONDS, 0),
    end: Math.ceil(endedAtMs / MS_PER_SECOND) + RANGE_MARGIN_SECONDS,
    fresh: "true",
  } as const;
  const askedAtMs = clock.now();
  const [samples, detail] = await Promise.all([
    service.control
      .metrics(process.sandboxId, range, signalAfter(LOOK_TIMEOUT_MS))
      // A service without metrics: the cause stays a likely one.
      .catch((): readonly MetricBody[] => []),
    service.control
      .get(process.sandboxId, signalAfter(LOOK_TIMEOUT_MS))
      // The end is told all the same.
      .catch((): SandboxDetailBody | undefined => undefined),
  ]);
  const times = { startedAtMs: process.startedAtMs, endedAtMs, askedAtMs, toldAtMs: clock.now() };
  return { kills: readKills(samples, detail, times), memoryMb: detail?.memoryMB };
}

function readKills(
  samples: readonly MetricBody[],
  detail: SandboxDetailBody | undefined,
  times: {
    readonly startedAtMs: number;
    readonly endedAtMs: number;
    readonly askedAtMs: number;
    readonly toldAtMs: number;
  },
): Kills {
  const newest = samples.at(-1);
  if (newest === undefined) return { start: undefined, before: undefined, after: undefined };
  const toServiceMs = clockOffset(Date.parse(newest.timestamp), times);
  const startMs = times.startedAtMs + toServiceMs;
  const endMs = times.endedAtMs + toServiceMs;
  const isYoung = detail !== undefined && startMs - Date.parse(detail.startedAt) < YOUNG_MS;
  const countAt = (atMs: number) => {
    const sample = samples.findLast(({ timestamp }) => Date.parse(timestamp) <= atMs);
    return sample === undefined && isYoung ? 0 : sample?.oomKills;
  };
  const after = samples.find(({ timestamp }) => Date.parse(timestamp) >= endMs) ?? newest;
  return {
    start: countAt(startMs),
    before: countAt(Math.max(startMs, endMs - NOTICE_MS)),
    after: after.oomKills,
  };
}

/** The clock of the service against ours, by a sample that was taken between asking and the reply. */
function clockOffset(
  takenAtMs: number,
  { askedAtMs, toldAtMs }: { readonly askedAtMs: number; readonly toldAtMs: number },
): number {
  if (takenAtMs < askedAtMs) return takenAtMs - askedAtMs;
  return Math.max(takenAtMs - toldAtMs, 0);
}
