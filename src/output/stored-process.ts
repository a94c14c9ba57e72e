/** A process that another server watches or watched, read from its spool. */

import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import { measureSpool } from "../spool/reader.ts";
import type { FoundSpool, Spools } from "../spool/spools.ts";
import type { ProcessState, ProcessView } from "./capture.ts";
import { StoredOutput } from "./process-output.ts";

/** How often the spool of another server is polled. */
const POLL_MS = 200;

const stateSchema = z.union([
  z.object({ kind: z.literal("ended"), exitCode: z.number(), reason: z.string() }),
  z.object({ kind: z.literal("timed_out") }),
  z.object({ kind: z.literal("unwatched") }),
  z.object({ kind: z.literal("lost"), code: z.string() }),
]);

const processEndingSchema = z.object({
  endedAtMs: z.number(),
  isAttached: z.boolean(),
  state: stateSchema,
  /** How much it wrote, where the disk did not take everything. */
  totalBytes: z.number().optional(),
});

type Ending = z.infer<typeof processEndingSchema>;

/** The record of an end that a spool keeps. */
export function toEnding(process: {
  readonly state: ProcessState;
  readonly endedAtMs: number;
  readonly isAttached: boolean;
}): Ending {
  const { state, endedAtMs, isAttached } = process;
  const base = { endedAtMs, isAttached };
  if (state.kind === "lost") return { ...base, state: { kind: "lost", code: state.error.code } };
  return { ...base, state: state.kind === "running" ? { kind: "unwatched" } : state };
}

/** Whether any server may continue a spool: its owner is dead, or lost the stream of the process. */
export function canContinue({ ending, isLive }: FoundSpool): boolean {
  if (ending === undefined) return !isLive;
  return processEndingSchema.safeParse(ending).data?.state.kind === "lost";
}

export interface StoredOptions {
  readonly spools: Spools;
  readonly clock: Clock;
  readonly found: FoundSpool;
}

/** How often a spool is looked for that is on its way to another owner. */
const MAX_LOOKS = 3;

/** The process of a spool; undefined when the spool is gone. */
export async function openStored(options: StoredOptions): Promise<StoredProcess | undefined> {
  let { found } = options;
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const { folder } = found.place;
    const extent = await measureSpool(folder);
    const now = await findAgain(options.spools, found);
    if (now === undefined) return undefined;
    if (now.place.folder === folder) {
      const locate = async () => (await findAgain(options.spools, now))?.place.folder;
      return new StoredProcess(
        { ...options, found: now },
        new StoredOutput(folder, extent, locate),
      );
    }
    found = now;
  }
  return undefined;
}

/** The same spool, which may have another owner now; undefined when it is gone. */
async function findAgain(spools: Spools, { place }: FoundSpool): Promise<FoundSpool | undefined> {
  const { sandboxId, name, createdAtMs } = place;
  const found = await spools.find({ sandboxId, name });
  return found?.place.createdAtMs === createdAtMs ? found : undefined;
}

export class StoredProcess implements ProcessView {
  readonly output: StoredOutput;
  readonly #options: StoredOptions;
  #found: FoundSpool;
  #fallback: ProcessState = { kind: "running" };

  constructor(options: StoredOptions, output: StoredOutput) {
    this.#options = options;
    this.#found = options.found;
    this.output = output;
  }

  get sandboxId(): string {
    return this.#found.place.sandboxId;
  }

  get processId(): string {
    return this.#found.place.name;
  }

  get startedAtMs(): number {
    return this.#found.place.createdAtMs;
  }

  /** Its spool has no end, and its server is dead. */
  get isOrphan(): boolean {
    return this.#found.ending === undefined && !this.#found.isLive;
  }

  /** Whether any server may watch it from now on. */
  get isUnwatched(): boolean {
    return canContinue(this.#found);
  }

  /** Whether this server wrote its spool. */
  get isOwn(): boolean {
    return this.#found.isOwn;
  }

  /** Whether another server watches it that lives. */
  get isWatched(): boolean {
    return this.#found.ending === undefined && this.#found.isLive && !this.isOwn;
  }

  get state(): ProcessState {
    const state = this.#ending?.state;
    if (state === undefined) return this.#fallback;
    if (state.kind !== "lost") return state;
    return { kind: "lost", error: new SandboxError("unavailable", `stream broke: ${state.code}`) };
  }

  get endedAtMs(): number | undefined {
    return this.#ending?.endedAtMs;
  }

  get isAttached(): boolean {
    return this.#found.isLate || this.#ending?.isAttached === true;
  }

  /** How much of the end of its output its server could not write. */
  get unwrittenBytes(): number {
    const { totalBytes } = this.output;
    return Math.max(0, (this.#ending?.totalBytes ?? totalBytes) - totalBytes);
  }

  /** Sets the state of an orphan that cannot be watched again. */
  giveUp(state: ProcessState): void {
    this.#fallback = state;
  }

  async changed(signal: AbortSignal): Promise<void> {
    const { spools, clock } = this.#options;
    const { totalBytes } = this.output;
    while (!signal.aborted && this.state.kind === "running" && !this.isOrphan) {
      try {
        await clock.sleep(POLL_MS, signal);
      } catch {
        // The signal fired.
        return;
      }
      // The end is read first: all output before it is on the disk.
      const found = await findAgain(spools, this.#found);
      if (found === undefined) {
        this.giveUp({ kind: "unwatched" });
        return;
      }
      this.#found = found;
      await this.output.refresh(found.place.folder);
      if (this.output.totalBytes !== totalBytes) return;
    }
  }

  get #ending(): Ending | undefined {
    return processEndingSchema.safeParse(this.#found.ending).data;
  }
}
