/** Tool: processor, memory and disk of a sandbox over time. */

import { z } from "../../common/schema.ts";
import type { MetricBody } from "../../wire/control.ts";
import { sandboxIdInput } from "../inputs.ts";
import { onOptionalRoute } from "../replies/error-hints.ts";
import { expiryField } from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { READ_ONLY, defineTool } from "../tool.ts";

const MAX_MINUTES = 1_440;
/** Enough to show a trend; a model pays for each sample. */
const MAX_SHOWN = 8;
const MEBIBYTE = 1_048_576;

const sampleSchema = z.object({
  at: z.string(),
  cpu_percent: z.number(),
  memory_mb: z.number(),
  disk_mb: z.number(),
});

export const getMetrics = defineTool({
  name: "get_metrics",
  title: "Get resource use",
  description:
    "Returns the processor (of all cores), memory and disk use of a sandbox: the newest sample, " +
    "the peak of each, and a few samples in between. Use it when a program is slow or was " +
    "killed; for running processes use list_processes.",
  toolset: "all",
  input: z.strictObject({
    sandbox_id: sandboxIdInput(),
    minutes: z.int().min(1).max(MAX_MINUTES).default(10).describe("How far to look back."),
  }),
  output: z.object({
    samples: z.number(),
    cpus: z.number().optional(),
    memory_total_mb: z.number().optional(),
    disk_total_mb: z.number().optional(),
    newest: sampleSchema.optional(),
    peak: sampleSchema.omit({ at: true }).optional(),
    course: z.array(sampleSchema),
    note: z.string().optional(),
    expires_at: z.string().optional(),
  }),
  annotations: READ_ONLY,
  async handler({ sandbox_id: sandboxId, minutes }, context) {
    const { service, signal, suggest } = context;
    const top = suggest("run_process", "; run top or free with run_process");
    const end = Math.ceil(service.now() / 1_000);
    const range = { start: end - minutes * 60, end };
    const samples = await onOptionalRoute(
      service.control.metrics(sandboxId, range, signal),
      `The sandbox service keeps no metrics${top}.`,
      () => service.control.get(sandboxId, signal),
    );
    const newest = samples.at(-1);
    if (newest === undefined) {
      // A service has no samples of a sandbox that is gone, either.
      const { state } = await service.control.get(sandboxId, signal);
      const note =
        state === "paused"
          ? "No sample in these minutes: the sandbox is paused."
          : "No sample in these minutes; one is taken every 5 s.";
      return recordReply({ samples: 0, course: [], note, ...expiryField(context, sandboxId) });
    }
    return recordReply({
      samples: samples.length,
      cpus: newest.cpuCount,
      memory_total_mb: toMb(newest.memTotal),
      disk_total_mb: toMb(newest.diskTotal),
      newest: toSample(newest),
      peak: {
        cpu_percent: peakOf(samples, (sample) => toTenths(sample.cpuUsedPct)),
        memory_mb: peakOf(samples, (sample) => toMb(sample.memUsed)),
        disk_mb: peakOf(samples, (sample) => toMb(sample.diskUsed)),
      },
      course: everyNth(samples).map((sample) => toSample(sample)),
      ...expiryField(context, sandboxId),
    });
  },
});

function toSample(body: MetricBody): z.input<typeof sampleSchema> {
  return {
    at: body.timestamp,
    cpu_percent: toTenths(body.cpuUsedPct),
    memory_mb: toMb(body.memUsed),
    disk_mb: toMb(body.diskUsed),
  };
}

function toMb(bytes: number): number {
  return toTenths(bytes / MEBIBYTE);
}

function toTenths(value: number): number {
  return Math.round(value * 10) / 10;
}

function peakOf(samples: readonly MetricBody[], read: (sample: MetricBody) => number): number {
  return samples.reduce((peak, sample) => Math.max(peak, read(sample)), 0);
}

/** At most `MAX_SHOWN` samples, evenly spread. */
function everyNth(samples: readonly MetricBody[]): readonly MetricBody[] {
  const step = Math.ceil(samples.length / MAX_SHOWN);
  return samples.filter((_, index) => index % step === 0);
}
