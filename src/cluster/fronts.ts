/**
 * The running fronts: each renews a Lease of its own and watches those of the others. The living
 * front whose name sorts first does what is done once for all: expiry, the pool, collection. Two
 * that do so at once, after a fault of the network, do no harm: every change is locked by itself.
 */

import { createTrack } from "../common/concurrency.ts";
import { hasErrorCode } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { orCanceled } from "../common/or-canceled.ts";
import type { ClusterApi } from "./api/api.ts";
import { createLastingFault } from "./api/lasting-fault.ts";
import { removeObject } from "./api/object-calls.ts";
import { leaseSchema, partLabels, partSelector, type Lease } from "./api/objects.ts";
import { startWatchCache, type WatchCache } from "./api/watch-cache.ts";
import { createLeaseNews } from "./lease-news.ts";

const RENEW_MS = 3_000;
/** Renewals at once: one that waits for its answer keeps the next one from nothing. */
const MAX_RENEWALS = 5;
/** A front that has renewed nothing for this long is gone. */
const LEASE_SECONDS = 15;
const MS_PER_SECOND = 1_000;
/** A Lease of a front that never came back is removed. */
const FORGET_MS = 120_000;
const PART_VALUE = "front";

export interface Fronts extends AsyncDisposable {
  readonly name: string;
  readonly isLeader: boolean;
  isAlive(name: string): boolean;
}

export interface FrontsOptions {
  readonly api: ClusterApi;
  readonly log: Logger;
  /** Of this front. */
  readonly name: string;
  /** Ends the start. */
  readonly signal: AbortSignal;
  /** Of the usual times, in tests. */
  readonly graceShare?: number;
}

/** Takes part from now on; its Lease is there when it resolves. */
export async function startFronts({
  api,
  log,
  name,
  signal,
  graceShare = 1,
}: FrontsOptions): Promise<Fronts> {
  const leaseMs = LEASE_SECONDS * MS_PER_SECOND * graceShare;
  await renew(api, name);
  await using stack = new AsyncDisposableStack();
  const selection = { kind: "leases", selector: partSelector(PART_VALUE), schema: leaseSchema };
  const leases: WatchCache<Lease> = stack.use(startWatchCache({ api, log, ...selection }));
  stack.defer(() =>
    removeObject(api, `leases/${name}`).catch((error: unknown) => {
      log.debug({ op: "cluster.lease", err: error }, "lease was left");
    }),
  );
  await orCanceled(leases.filled, signal);
  const news = createLeaseNews(name, leases.items.keys(), leaseMs);
  const stop = leases.listen((changed, lease) => news.note(changed, lease !== undefined));
  let renewedAtMs = performance.now();
  const isAlive = (other: string) => {
    if (other === name) return performance.now() - renewedAtMs < leaseMs;
    // While the watch is silent, a front that it has not named may be new.
    const unknownMs = news.deafForMs() < leaseMs ? leaseMs : 0;
    return (news.silenceOf(other) ?? unknownMs) < leaseMs;
  };

  const fault = createLastingFault({ log, fields: { op: "cluster.lease", subject: name } });

  async function tick(): Promise<void> {
    try {
      const startedAtMs = performance.now();
      await renew(api, name);
      renewedAtMs = Math.max(renewedAtMs, startedAtMs);
      fault.clear();
      for (const other of news.names()) {
        const isForgotten = (news.silenceOf(other) ?? 0) > FORGET_MS * graceShare;
        if (isForgotten) await removeObject(api, `leases/${other}`);
      }
    } catch (error) {
      fault.note(error);
    }
  }

  const { pending, track } = createTrack();
  const timer = setInterval(() => {
    // Its faults are noted.
    if (pending.size < MAX_RENEWALS) void track(tick());
  }, RENEW_MS * graceShare).unref();
  const owned = stack.move();
  return {
    name,
    get isLeader() {
      // A front whose watch is silent still leads: the others see its Lease renewed.
      if (!isAlive(name)) return false;
      const living = [...new Set([name, ...news.names()])].filter((other) => isAlive(other));
      return living.toSorted()[0] === name;
    },
    isAlive,
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      stop();
      await Promise.all(pending);
      await owned.disposeAsync();
    },
  };
}

async function renew(api: ClusterApi, name: string): Promise<void> {
  const spec = {
    holderIdentity: name,
    leaseDurationSeconds: LEASE_SECONDS,
    renewTime: new Date().toISOString().replace("Z", "000Z"),
  };
  try {
    await api.call({ method: "PATCH", path: `leases/${name}`, body: { spec } });
  } catch (error) {
    if (!hasErrorCode(error, "not_found")) throw error;
    const metadata = { name, labels: partLabels(PART_VALUE) };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    await api.call({ method: "POST", path: "leases", body });
  }
}
