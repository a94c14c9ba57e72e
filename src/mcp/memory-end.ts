/** Whether a process that none of its callers killed was ended for lack of memory. */

import type { Capture, ProcessView } from "../output/capture.ts";
import type { MetricBody } from "../wire/control.ts";
import type { ToolContext } from "./tool.ts";

/** What a shell reports for a child that SIGKILL ended. */
const KILLED_EXIT_CODE = 137;
const LOOK_TIMEOUT_MS = 2_000;
/** The kernel counts the kill before the process is gone, and we learn of its end later still. */
const NOTICE_MS = 250;
/** Samples come every 5 s; the clocks of service and server may differ. */
const RANGE_MARGIN_SECONDS = 60;
const MS_PER_SECOND = 1_000;

type EndedProcess = ProcessView & Partial<Pick<Capture, "isKillSent">>;
type LookContext = Pick<ToolContext, "service" | "suggest" | "clock">;
/** `unknown` where the service does not count, or the counter grew, but not at the end. */
type Verdict = "out of memory" | "other cause" | "unknown";

/** The cause of an end by SIGKILL with the limit of memory; undefined for any other end. */
export async function memoryFact(
  process: EndedProcess,
  context: LookContext,
): Promise<string | undefined> {
  const { state, sandboxId } = process;
  if (state.kind !== "ended" || process.isKillSent === true) return undefined;
  const isKilled = state.reason.startsWith("signal: killed") || state.exitCode === KILLED_EXIT_CODE;
  if (!isKilled) return undefined;
  const [verdict, limit] = await Promise.all([
    judge(process, context),
    memoryLimit(sandboxId, context.service),
  ]);
  if (verdict === "other cause") {
    return "killed by SIGKILL, which this server did not send; not for lack of memory";
  }
  const has = limit === undefined ? "" : `: the sandbox has ${limit} MB in all`;
  const look = context.suggest("get_metrics", "; get_metrics shows its use");
  const cause = verdict === "out of memory" ? "out of memory" : "most likely out of memory";
  return `killed, and not by this server: ${cause}${has}${look}`;
}

/** By the counter of the kernel, before and after the end. */
async function judge(process: EndedProcess, context: LookContext): Promise<Verdict> {
  const { sandboxId, startedAtMs } = process;
  const endedAtMs = process.endedAtMs ?? context.clock.now();
  const range = {
    start: Math.max(Math.floor(startedAtMs / MS_PER_SECOND) - RANGE_MARGIN_SECONDS, 0),
    end: Math.ceil(endedAtMs / MS_PER_SECOND) + RANGE_MARGIN_SECONDS,
    fresh: "true",
  } as const;
  const samples = await readSamples(sandboxId, range, context.service);
  const now = samples.at(-1);
  if (now === undefined) return "unknown";
  // The service may have another clock than this server: times count from the newest sample.
  const toServiceMs = Date.parse(now.timestamp) - context.clock.now();
  const countBefore = (atMs: number) => {
    const limitMs = atMs + toServiceMs - NOTICE_MS;
    return samples.findLast(({ timestamp }) => Date.parse(timestamp) <= limitMs)?.oomKills;
  };
  const endMs = endedAtMs + toServiceMs;
  const after = samples.find(({ timestamp }) => Date.parse(timestamp) >= endMs) ?? now;
  return compare({
    start: countBefore(startedAtMs),
    before: countBefore(endedAtMs),
    after: after.oomKills,
  });
}

/** Undefined where no sample was taken; a count that fell begins anew after a boot. */
export function compare(kills: {
  readonly start: number | undefined;
  readonly before: number | undefined;
  readonly after: number | undefined;
}): Verdict {
  const { start, before, after } = kills;
  if (after === undefined) return "unknown";
  if (after === 0) return "other cause";
  if (before !== undefined && after !== before) return "out of memory";
  return start === after ? "other cause" : "unknown";
}

async function readSamples(
  sandboxId: string,
  range: Parameters<ToolContext["service"]["control"]["metrics"]>[1],
  service: ToolContext["service"],
): Promise<readonly MetricBody[]> {
  try {
    return await service.control.metrics(sandboxId, range, AbortSignal.timeout(LOOK_TIMEOUT_MS));
  } catch {
    // A service without metrics: the cause stays a likely one.
    return [];
  }
}

async function memoryLimit(
  sandboxId: string,
  service: ToolContext["service"],
): Promise<number | undefined> {
  try {
    return (await service.control.get(sandboxId, AbortSignal.timeout(LOOK_TIMEOUT_MS))).memoryMB;
  } catch {
    // The end is told all the same.
    return undefined;
  }
}
