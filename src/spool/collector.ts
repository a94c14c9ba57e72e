/** Clears a folder of spools again and again while its server runs. */

import type { Logger } from "../common/log.ts";
import { createAges, type SpoolClock } from "./ages.ts";
import { collectSpools } from "./collect.ts";
import type { Entry } from "./folders.ts";

const COLLECT_MS = 60_000;

interface CollectorOptions {
  readonly root: string;
  readonly clock: SpoolClock;
  readonly log: Logger;
  readonly survey: () => Promise<readonly Entry[]>;
  /** Marks the own spools that have not ended as in use. */
  readonly touch: () => Promise<void>;
}

export interface Collector {
  /** Looks at once, and then at times. */
  start(): void;
  /** Resolves when no look is under way any more; one that is removes nothing further. */
  end(): Promise<void>;
}

export function createCollector({ root, clock, log, survey, touch }: CollectorOptions): Collector {
  const ages = createAges(clock);
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let collecting: Promise<void> | undefined;

  async function collect(): Promise<void> {
    try {
      await touch();
      const spools = { entries: await survey(), ageOf: ages.look(), signal: stop.signal };
      await collectSpools(root, spools, ({ name, error }) => {
        log.debug({ op: "spool.collect", name, err: error }, "spool stays");
      });
    } catch (error) {
      log.debug({ op: "spool.collect", err: error }, "spools not collected");
    }
  }

  /** Not beside one that takes long. `collect` never rejects. */
  function collectOnce(): void {
    collecting ??= collect().finally(() => (collecting = undefined));
  }

  return {
    start() {
      timer = setInterval(collectOnce, COLLECT_MS).unref();
      collectOnce();
    },
    async end() {
      stop.abort();
      clearInterval(timer);
      await collecting;
    },
  };
}
