/** Remembers a successful probe, so that later starts cost a file read. */

import { createHash } from "node:crypto";
import { readFile, rm, stat } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { z } from "../common/schema.ts";
import { ISOLATION_LEVELS } from "./engine.ts";
import { draftOf, readIfThere, writeWhole } from "./files.ts";
import type { ProbeOptions, ProbeResult } from "./probe.ts";

/** A change of what the probe looks at makes older results void. */
const PROBE_VERSION = 2;
const CACHE_NAME = "engine-probe.json";

const levelSchema = z.enum(ISOLATION_LEVELS);
const cacheSchema = z.object({
  key: z.string(),
  choice: z.object({ runtime: z.string(), level: levelSchema }),
  report: z.object({
    runtime: z.string(),
    level: levelSchema,
    isUsable: z.literal(true),
    checks: z.array(
      z.object({
        name: z.string(),
        outcome: z.enum(["ok", "warning", "missing"]),
        detail: z.string(),
        remedy: z.string().optional(),
      }),
    ),
  }),
});

/** A key that changes with everything that could change the answer. */
export async function probeKey(
  options: ProbeOptions,
  candidates: readonly string[],
): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([PROBE_VERSION, release(), options]));
  hash.update(await readFile("/proc/sys/kernel/random/boot_id", "utf8"));
  for (const path of [...candidates, options.daemon.node]) {
    const entry = await stat(path);
    hash.update(`${path} ${entry.size} ${entry.mtimeMs}\n`);
  }
  return hash.digest("hex");
}

/** The remembered result of a probe with this key. */
export async function readProbe(home: string, key: string): Promise<ProbeResult | undefined> {
  const text = await readIfThere(join(home, CACHE_NAME));
  if (text === undefined) return undefined;
  const parsed = cacheSchema.safeParse(JSON.parse(text));
  if (!parsed.success || parsed.data.key !== key) return undefined;
  const { choice, report } = parsed.data;
  const checks = report.checks.map(({ remedy, ...check }) =>
    remedy === undefined ? check : { ...check, remedy },
  );
  return { choice, report: { ...report, checks } };
}

/** Remembers a success; of a failure nothing is kept. */
export async function writeProbe(home: string, key: string, result: ProbeResult): Promise<void> {
  const path = join(home, CACHE_NAME);
  if (result.choice === undefined) await rm(path, { force: true });
  else
    await writeWhole(path, JSON.stringify({ key, ...result }), draftOf(`${path}.${process.pid}`));
}
