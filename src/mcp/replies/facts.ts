/** The facts that a reply states about a sandbox and its processes. */

import { cutText, oneLine } from "../../common/untrusted-text.ts";
import type { ProcessState, ProcessView } from "../../output/capture.ts";
import type { Excerpt } from "../../output/excerpt.ts";
import { logUri } from "../../output/logs.ts";
import type { Section } from "../../output/quote.ts";
import { formatBytes, formatDuration } from "../../output/text.ts";
import type { Network, SandboxDetailBody } from "../../wire/control.ts";
import type { Suggest, ToolContext } from "../tool.ts";

type ExpirySource = Pick<ToolContext, "service">;

const MAX_REASON_CHARACTERS = 300;

/** With less time left every reply says so. */
const SHORT_LIFE_MS = 120_000;

/** The time left, for the header of a reply; undefined when it is unknown. */
export function expiryFact(context: ExpirySource, sandboxId: string): string | undefined {
  const atMs = context.service.expiresAtMs(sandboxId);
  if (atMs === undefined) return undefined;
  const expires = context.service.onTimeout(sandboxId) === "pause" ? "is paused" : "expires";
  return `sandbox ${expires} in ${secondsUntil(atMs, context)}s`;
}

/** The expiry, as a field of a record. */
export function expiryField(
  context: ExpirySource,
  sandboxId: string,
): { readonly expires_at?: string } {
  const atMs = context.service.expiresAtMs(sandboxId);
  return atMs === undefined ? {} : { expires_at: new Date(atMs).toISOString() };
}

/** The same, in a record about something else, whose own expiry it could pass for. */
export function sandboxExpiryField(
  context: ExpirySource,
  sandboxId: string,
): { readonly sandbox_expires_at?: string } {
  const { expires_at: at } = expiryField(context, sandboxId);
  return at === undefined ? {} : { sandbox_expires_at: at };
}

/** The rest of its life, as a field of a record. */
export function lifeField(
  context: ExpirySource,
  sandboxId: string,
): { readonly time_to_live_seconds?: number } {
  const atMs = context.service.expiresAtMs(sandboxId);
  return atMs === undefined ? {} : { time_to_live_seconds: secondsUntil(atMs, context) };
}

/** What a sandbox can use, as fields of a record. */
export function sizeFields(detail: {
  readonly cpuCount: number;
  readonly memoryMB: number;
  readonly diskSizeMB: number;
}) {
  return { cpus: detail.cpuCount, memory_mb: detail.memoryMB, disk_mb: detail.diskSizeMB };
}

/** Whether processes came along with files; undefined fields where the service does not say. */
export function processesField(carried: {
  readonly memory?: boolean | undefined;
  readonly memoryReason?: string | undefined;
}): { readonly processes?: string } {
  const { memory, memoryReason } = carried;
  if (memory === undefined) return {};
  if (memory) return { processes: "go on running" };
  if (memoryReason === undefined) return { processes: "files only" };
  return { processes: `files only, because ${shortReason(memoryReason)}` };
}

/** What a service gives as a reason, which may be that of another maker. */
export function shortReason(reason: string): string {
  return cutText(oneLine(reason), MAX_REASON_CHARACTERS);
}

/** What its programs can reach, in one word: what is allowed by name counts before what is denied. */
export function networkWord(
  isAllowed: boolean,
  network: Pick<Network, "allowOut" | "denyOut"> | undefined,
): "internet" | "filtered" | "none" {
  const { allowOut = [], denyOut = [] } = network ?? {};
  if (isAllowed && denyOut.length === 0) return "internet";
  const isAllDenied = !isAllowed || denyOut.includes(ALL_TRAFFIC);
  return isAllDenied && allowOut.length === 0 ? "none" : "filtered";
}

const ALL_TRAFFIC = "0.0.0.0/0";

/** What ends a sandbox that is kept for later, behind a fact about it; empty where nothing does. */
export function endOf(
  sandboxId: string,
  { state, suggest }: Pick<ToolContext, "state" | "suggest">,
): string {
  if (!state.endsWithServer(sandboxId)) return "";
  return `; it ends with this session all the same${suggest("snapshot", ", a snapshot does not")}`;
}

/** Why an address of a sandbox does not answer now; undefined where it does, or wakes the sandbox. */
export function asleepNote(detail: SandboxDetailBody, suggest: Suggest): string | undefined {
  if (detail.state !== "paused" || detail.lifecycle?.autoResume === true) return undefined;
  const connect = suggest("connect_sandbox", " Resume it with connect_sandbox.");
  return `The sandbox is paused: nothing answers until it runs again.${connect}`;
}

const AT_TIMEOUT = { kill: "ends", pause: "is paused", unknown: "expires" } as const;

/** A warning about a sandbox whose time is over soon; undefined for any other. */
export function timeLeft(
  context: ExpirySource & Pick<ToolContext, "suggest">,
  sandboxId: string,
): string | undefined {
  const atMs = context.service.expiresAtMs(sandboxId);
  if (atMs === undefined) return undefined;
  const leftMs = atMs - context.service.now();
  if (leftMs <= 0 || leftMs >= SHORT_LIFE_MS) return undefined;
  const hint = context.suggest("set_timeout", "; call set_timeout if it is needed for longer");
  const ends = AT_TIMEOUT[context.service.onTimeout(sandboxId) ?? "unknown"];
  return `sandbox ${sandboxId} ${ends} in ${secondsUntil(atMs, context)}s${hint}`;
}

function secondsUntil(atMs: number, { service }: ExpirySource): number {
  return Math.max(0, Math.round((atMs - service.now()) / 1_000));
}

export function stateFact(state: ProcessState): string {
  switch (state.kind) {
    case "running":
      return "status: running";
    case "ended":
      return `exit_code: ${state.exitCode}${signalOf(state)}`;
    case "timed_out":
      return "status: killed at timeout_seconds (not its children)";
    case "lost":
      return `status: connection lost (${state.error.code})`;
    case "unwatched":
      return "status: ended while no server watched it; its exit code is not known";
    default:
      return state satisfies never;
  }
}

/** Services report a death by signal as -1 or 128 + n, and name the signal in the reason. */
function signalOf(state: { readonly exitCode: number; readonly reason: string }): string {
  const name = /^signal: ([a-z0-9][a-z0-9 /-]{0,31})/.exec(state.reason)?.[1]?.trimEnd();
  return name === undefined ? "" : ` (ended by signal: ${name})`;
}

/** How long it ran; undefined where its start or its end is not known. */
export function durationFact(
  { isAttached, startedAtMs, endedAtMs, state }: ProcessView,
  { clock }: Pick<ToolContext, "clock">,
): string | undefined {
  const untilMs = state.kind === "running" ? clock.now() : endedAtMs;
  if (isAttached || untilMs === undefined) return undefined;
  // A wall clock can be set back.
  return `duration: ${formatDuration(Math.max(0, untilMs - startedAtMs))}`;
}

/** Of a process without an earlier reader, or with one whose output this server could not continue. */
export function unknownFact({ isAttached }: ProcessView): string | undefined {
  return isAttached ? "output from before this server watched is not known" : undefined;
}

/** How much each stream wrote. */
export function volumeFact(capture: ProcessView): string {
  const { stdout, stderr } = capture.output.written;
  return `stdout ${formatBytes(stdout)}, stderr ${formatBytes(stderr)}`;
}

/** How much output is kept nowhere; undefined for none. */
export function lossFact(capture: ProcessView): string | undefined {
  const { lostBytes } = capture.output;
  return lostBytes === 0 ? undefined : `${formatBytes(lostBytes)} in the middle no longer kept`;
}

/** Excerpts as sections; a cut names the address of the omitted part. */
export function excerptSections(
  capture: Pick<ProcessView, "sandboxId" | "processId">,
  excerpts: readonly Excerpt[],
  canPage: boolean,
): Section[] {
  return excerpts.map(({ stream, head, cut }) => {
    if (cut === undefined) return { name: stream, parts: head };
    const page = `get_process_output(process_id="${capture.processId}", cursor=${cut.cursor})`;
    const alternative = canPage ? `, or ${page}` : "";
    const where = `newest part: ${logUri(capture.sandboxId)}${alternative}`;
    const note = `[… ${formatBytes(cut.omittedBytes)} omitted; ${where}]`;
    return { name: stream, parts: [...head, { note }, ...cut.tail] };
  });
}
