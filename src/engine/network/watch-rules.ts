/**
 * Looks whether the rules of a router in its outside are still there: a firewall of the machine that is
 * loaded anew may take them along. A look costs a few milliseconds, however many containers there are.
 */

import type { Logger } from "../../common/log.ts";
import type { Turns } from "../../common/turns.ts";
import { ALL_LINKS } from "./forwarding.ts";
import { applyRules, readSetting } from "./namespace.ts";
import { readHosts } from "./own-addresses.ts";
import { isUsable, routersOf, type Router } from "./router-record.ts";
import { hostRules } from "./router-rules.ts";
import { hasUplinkRules, renewUplink } from "./uplink.ts";

const LOOK_MS = 5_000;

/** By the folder of the containers of each router. */
export interface RuleWatches {
  /** Looks until there is no router; at one of an earlier process at once. */
  start(owner: string, router: { readonly isNew: boolean }): void;
}

export function createRuleWatches(turns: Turns, log: Logger | undefined): RuleWatches {
  const watches = new Map<string, Disposable>();
  return {
    start(owner, { isNew }) {
      watches.get(owner)?.[Symbol.dispose]();
      const inTurn = async (work: () => Promise<void>) => turns.run(owner, work);
      watches.set(owner, watchRules({ find: async () => findRouter(owner), inTurn, isNew, log }));
    },
  };
}

async function findRouter(owner: string): Promise<Router | undefined> {
  for (const router of await routersOf(owner)) if (await isUsable(router)) return router;
  return undefined;
}

interface Watched {
  readonly find: () => Promise<Router | undefined>;
  /** Does what changes the router while nothing else does. */
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
  /** False for one of an earlier process, which is looked at at once. */
  readonly isNew: boolean;
  readonly log: Logger | undefined;
}

function watchRules({ find, inTurn, isNew, log }: Watched): Disposable {
  let isBusy = false;
  let hasFailed = false;
  let known: string | undefined;
  const look = async () => {
    const router = await find();
    if (router === undefined) return clearInterval(timer);
    const outside = router.outside ?? undefined;
    const hosts = await readHosts(outside);
    // Whether the outside forwards by itself: what keeps its link from that ends then.
    const now = [await readSetting(outside, ALL_LINKS), ...hosts].join();
    if (now === known && (await hasRules(router))) return;
    await inTurn(async () => {
      const current = await find();
      if (current === undefined) return;
      const hadRules = await hasRules(current);
      await applyRules(current.path, hostRules(hosts));
      await renewUplink(current.outside ?? undefined, current);
      if (!hadRules) log?.warn({ op: "network.rules", outcome: "restored" }, RESTORED);
    });
    known = now;
  };
  const run = () => {
    if (isBusy) return;
    isBusy = true;
    void look()
      .then(() => (hasFailed = false))
      .catch((error: unknown) => {
        if (!hasFailed) log?.error({ op: "network.rules", err: error }, NOT_RESTORED);
        hasFailed = true;
      })
      .finally(() => (isBusy = false));
  };
  const timer = setInterval(run, LOOK_MS).unref();
  if (!isNew) run();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

const RESTORED = "another program removed the rules of sandboxes' network: they are set again";
const NOT_RESTORED = "the rules of sandboxes' network cannot be checked";

async function hasRules({ outside, slot }: Router): Promise<boolean> {
  return hasUplinkRules(outside ?? undefined, slot);
}
