/** A running `serve` of which a test learns what it holds without its garbage. */

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { causeCode } from "../../../src/common/errors.ts";
import { z } from "../../../src/common/schema.ts";
import { PROGRAM } from "../program.ts";
import { startServe, type TestServe } from "../serve.ts";
import { MEMORY_VARIABLE, type MemoryReport } from "./memory-listener.ts";

const LISTENER = resolve(import.meta.dirname, "memory-listener.ts");
const POLL_MS = 20;
const MAX_POLLS = 1_500;
const reportSchema = z.object({ heapUsed: z.number(), external: z.number(), rss: z.number() });

type Environment = Readonly<Record<string, string>>;

export interface MeasuredServe extends TestServe {
  /** Collects its garbage and says what is left. */
  measure(): Promise<MemoryReport>;
}

/**
 * The C library keeps what was freed for later, as much as the timing of allocations leads it to;
 * with fixed limits it gives it back, so that resident memory is what the program holds.
 */
export const GIVES_BACK: Environment = {
  MALLOC_MMAP_THRESHOLD_: "65536",
  MALLOC_TRIM_THRESHOLD_: "65536",
};

/** Starts it as {@link startServe} does. */
export async function startMeasuredServe(
  flags: readonly string[],
  environment: Environment = {},
): Promise<MeasuredServe> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), "smcp-memory-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const path = join(folder, "report");
  const node = [process.execPath, "--expose-gc", "--import", LISTENER] as const;
  const serve = stack.use(
    await startServe(flags, {
      command: [...node, PROGRAM],
      environment: { ...environment, [MEMORY_VARIABLE]: path },
    }),
  );
  const owned = stack.move();
  return {
    ...serve,
    async measure() {
      serve.program.child.kill("SIGUSR2");
      return readReport(path);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The file is there once the report is whole, and is taken away for the next one. */
async function readReport(path: string): Promise<MemoryReport> {
  for (let poll = 0; poll < MAX_POLLS; poll += 1) {
    try {
      const report = reportSchema.parse(JSON.parse(await readFile(path, "utf8")));
      await rm(path);
      return report;
    } catch (error) {
      if (causeCode(error) !== "ENOENT") throw error;
      await delay(POLL_MS);
    }
  }
  throw new Error("no report of its memory");
}
