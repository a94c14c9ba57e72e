/** Running sandboxes as the gateway reaches them: made when first asked for, ended with their Pod. */

import type { Clock } from "../common/clock.ts";
import { initDaemon, toInit } from "../sandboxes/boot/boot.ts";
import { beginRun, endpointFacts, type Endpoint, type Run } from "../sandboxes/run.ts";
import { addressOf, type Pod } from "./api/objects.ts";
import type { WatchCache } from "./api/watch-cache.ts";
import { createPodDialer, type PodDialer } from "./pods/dial.ts";
import { isKnown, type KnownSandbox, type StoredSandbox } from "./records.ts";
import type { ClusterSecrets } from "./seed.ts";

export interface RunsOptions {
  readonly clock: Clock;
  readonly cluster: ClusterSecrets;
  readonly records: WatchCache<StoredSandbox>;
  readonly pods: WatchCache<Pod>;
  /** What the image of a sandbox says of its user. */
  buildOf(record: KnownSandbox["record"]): Parameters<typeof toInit>[2];
  readonly environment: Readonly<Record<string, string>>;
  readonly podPort?: number | undefined;
}

export interface Runs extends Disposable {
  /** Undefined unless its record says that it runs and its Pod has an address. */
  find(sandboxId: string): Endpoint | undefined;
  all(): Endpoint[];
  /** Connections to the Pod of a sandbox, whatever its record says. */
  dialer(stored: KnownSandbox, host: string): PodDialer;
}

interface OpenRun {
  readonly host: string;
  readonly run: Run;
}

export function createRuns(options: RunsOptions): Runs {
  const { records, pods, cluster } = options;
  const open = new Map<string, OpenRun>();

  function end(sandboxId: string): void {
    open.get(sandboxId)?.run.end();
    open.delete(sandboxId);
  }

  /** What it is now; undefined for what does not run. */
  function presentOf(sandboxId: string): { stored: KnownSandbox; host: string } | undefined {
    const stored = records.items.get(sandboxId);
    const pod = pods.items.get(sandboxId);
    const host = pod && addressOf(pod);
    const runs = isKnown(stored) && stored.record.state === "running";
    // One that is being paused serves no client.
    if (!runs || stored.change !== undefined || host === undefined) return undefined;
    return { stored, host };
  }

  function look(sandboxId: string): void {
    const known = open.get(sandboxId);
    if (known !== undefined && presentOf(sandboxId)?.host !== known.host) end(sandboxId);
  }

  function dialer({ record }: KnownSandbox, host: string): PodDialer {
    const { podPort: port } = options;
    const address = { podName: record.sandboxId, host, passKey: cluster.passKey };
    return createPodDialer({ ...address, ...(port !== undefined && { port }) }, (control, signal) =>
      initDaemon(control, toPodInit(options, record), signal),
    );
  }

  function find(sandboxId: string): Endpoint | undefined {
    const present = presentOf(sandboxId);
    if (present === undefined) return undefined;
    const known = open.get(sandboxId);
    if (known !== undefined) return known.run.endpoint;
    const { stored, host } = present;
    const facts = endpointFacts(stored.record, cluster.secrets);
    const run = beginRun(dialer(stored, host), { ...facts, servicePorts: [] });
    open.set(sandboxId, { host, run });
    return run.endpoint;
  }

  const stops = [records.listen(look), pods.listen(look)];
  return {
    find,
    all: () => [...records.items.keys()].flatMap((sandboxId) => find(sandboxId) ?? []),
    dialer,
    [Symbol.dispose]() {
      for (const stop of stops) stop();
      for (const sandboxId of open.keys()) end(sandboxId);
    },
  };
}

/** What the daemon of a sandbox is told, by whichever front. */
export function toPodInit(
  {
    clock,
    cluster,
    environment,
    ...options
  }: Pick<RunsOptions, "clock" | "cluster" | "environment" | "buildOf">,
  record: KnownSandbox["record"],
) {
  return toInit({ clock, secrets: cluster.secrets, environment }, record, options.buildOf(record));
}
