/** Log and resource use of a sandbox, asked of the daemon in its Pod when a client asks: nothing is kept. */

import { anySignal } from "../../common/any-signal.ts";
import type { Clock } from "../../common/clock.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { z } from "../../common/schema.ts";
import { toFilter, type LogQuery } from "../../sandboxes/logs/log-book.ts";
import type { Sample } from "../../sandboxes/usage-meter.ts";
import type { LogLine } from "../../store/log-records.ts";
import { addressOf, type Pod } from "../api/objects.ts";
import type { WatchCache } from "../api/watch-cache.ts";
import type { KnownSandbox } from "../records.ts";
import type { Runs } from "../runs.ts";
import { createTakeGate, type Applicant } from "../snapshots/take-gate.ts";
import { askDaemon } from "./ask-daemon.ts";
import { selectLines, toLogLines } from "./pod-log.ts";

/** The daemon keeps 1 MiB, besides the numbers of lines. */
const MAX_LOG_BYTES = 2 * 1024 * 1024;
const MAX_USAGE_BYTES = 4_096;
const ANSWER_TIMEOUT_MS = 5_000;
/** Daemons asked at once: each log is read as a whole. A team whose daemons do not answer leaves places. */
const LOG_PLACES = { atOnce: 4, perTeam: 2, waitingPerTeam: 100, waitMs: 30_000, subject: "logs" };
/** A list asks for all of its sandboxes. */
const USAGE_PLACES = {
  atOnce: 32,
  perTeam: 16,
  waitingPerTeam: 1_000,
  waitMs: 30_000,
  subject: "metrics",
};
const BYTES_PER_MB = 1024 * 1024;

export interface PodInspector {
  /** @throws SandboxError unavailable, unimplemented for the daemon of an older image. */
  logs(stored: KnownSandbox, query: LogQuery): Promise<LogLine[]>;
  /** Of this moment. @throws SandboxError as `logs`. */
  measure(stored: KnownSandbox): Promise<Sample>;
}

export interface InspectorOptions {
  readonly clock: Clock;
  readonly pods: WatchCache<Pod>;
  readonly runs: Runs;
  /** Fires when the front closes. */
  readonly closing: AbortSignal;
}

/** What a program inside that took the place of the daemon says is bounded, and nothing more. */
const amount = z.number().min(0).max(Number.MAX_SAFE_INTEGER);

const usageSchema = z.object({
  cpuMs: amount,
  passedMs: z.number().positive(),
  memoryBytes: amount,
  cacheBytes: amount,
  diskBytes: amount,
  diskTotalBytes: amount,
  outOfMemoryKills: amount.optional(),
});

export function createPodInspector(options: InspectorOptions): PodInspector {
  const { clock } = options;
  const logGate = createTakeGate(LOG_PLACES);
  const usageGate = createTakeGate(USAGE_PLACES);
  const applicantOf = ({ record: { team, sandboxId } }: KnownSandbox): Applicant => ({
    team,
    key: sandboxId,
    signal: options.closing,
  });

  async function ask(stored: KnownSandbox, path: string, maxBytes: number): Promise<Buffer> {
    const { sandboxId } = stored.record;
    const signal = anySignal([options.closing, signalAfter(ANSWER_TIMEOUT_MS)]);
    try {
      const host = await options.pods.until(sandboxId, (pod) => pod && addressOf(pod), signal);
      const dialer = options.runs.dialer(stored, host);
      return await askDaemon(dialer, { path, maxBytes }, signal);
    } catch (error) {
      if (hasErrorCode(error, "canceled")) {
        const message = "the Pod of the sandbox does not answer";
        throw new SandboxError("unavailable", message, { cause: error });
      }
      if (!hasErrorCode(error, "internal")) throw error;
      const message = "the daemon in the image of this sandbox is too old for this";
      const hint = "export the template again: docs/kubernetes.md";
      throw new SandboxError("unimplemented", message, { cause: error, hint });
    }
  }

  return {
    async logs(stored, query) {
      const { record } = stored;
      const body = await logGate.run(applicantOf(stored), async () =>
        ask(stored, "/log", MAX_LOG_BYTES),
      );
      const nowMs = clock.now();
      const facts = { subject: record, startedAtMs: record.startedAtMs, nowMs };
      return selectLines(toLogLines(body.toString("utf8"), facts), toFilter(query, nowMs));
    },
    async measure(stored) {
      const body = await usageGate.run(applicantOf(stored), async () =>
        ask(stored, "/usage", MAX_USAGE_BYTES),
      );
      const atMs = clock.now();
      return toSample(readUsage(body), stored, atMs);
    },
  };
}

function readUsage(body: Buffer): z.infer<typeof usageSchema> {
  try {
    return usageSchema.parse(parseJson(body));
  } catch (error) {
    throw new SandboxError("unavailable", "the daemon of the sandbox answered no figures", {
      cause: error,
    });
  }
}

function toSample(
  { cpuMs, passedMs, outOfMemoryKills, ...bytes }: z.infer<typeof usageSchema>,
  { record: { limits } }: KnownSandbox,
  atMs: number,
): Sample {
  const share = Math.min(cpuMs / (passedMs * limits.cpus), 1);
  return {
    ...bytes,
    atMs,
    cpuCount: limits.cpus,
    cpuUsedPercent: Math.round(share * 10_000) / 100,
    memoryTotalBytes: limits.memoryMb * BYTES_PER_MB,
    outOfMemoryKills,
  };
}
