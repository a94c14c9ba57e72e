/** Takes a snapshot of a sandbox that is a Pod: its record as intent, its image, and only then the answer. */

import { randomUUID } from "node:crypto";
import { anySignal } from "../../common/any-signal.ts";
import { isCode, SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { step } from "../../common/steps.ts";
import { callDaemon } from "../../sandboxes/boot/daemon-call.ts";
import { parseSnapshotName, requireAwaited } from "../../sandboxes/snapshots/snapshots.ts";
import { randomId } from "../../wire/address.ts";
import { sandboxCannotBe, sandboxMissing } from "../../wire/messages.ts";
import { CHANGES_TRAILER } from "../../wire/pod-listener.ts";
import { addressOf, imageIdOf, imageOf } from "../api/objects.ts";
import type { ClusterContext } from "../context.ts";
import { missingAbility } from "../missing-abilities.ts";
import { isKnown, type KnownSandbox } from "../records.ts";
import { findImagePlace, type SnapshotSettings } from "./image-place.ts";
import { readReport, writeLayer, type LayerBounds, type LayerSink } from "./layer.ts";
import { createPace } from "./pace.ts";
import { pushSnapshot } from "./push.ts";
import {
  addSnapshot,
  changeSnapshot,
  namedTemplateId,
  snapshotName,
  type SnapshotRecord,
} from "./records.ts";
import { createRegistry } from "./registry.ts";
import { removeImageOf, removeSnapshot } from "./remove.ts";
import { buildOf, newestTime } from "./snapshots.ts";

/** All of it: reading, compressing, and pushing to a registry that may be slow. */
export const TAKE_TIMEOUT_MS = 15 * 60_000;
/** Of a registry that is asked whether it is there. */
const ASK_TIMEOUT_MS = 60_000;
const BYTES_PER_MB = 1024 * 1024;
/** Headers of an archive are no part of the disk limit. */
const HEADROOM_BYTES = 64 * BYTES_PER_MB;
const MAX_ENTRIES = 1_000_000;
const MAX_PATH_BYTES = 64 * BYTES_PER_MB;
/** A daemon looks at each of its files; one that sends less keeps a place from others. */
const MAX_SILENCE_MS = 180_000;
const LEAST_BYTES_PER_SECOND = BYTES_PER_MB / 2;
/** Names of what is long are said twice. */
const RAW_SHARE = 2;
/** What a daemon answers that does not tell its changes. */
const BUSY = "EBUSY";
const REFUSALS = { unknown: 400, tooOld: 404, busy: 409 } as const;

export interface TakeRequest {
  readonly team: string;
  readonly stored: KnownSandbox;
  readonly kind: SnapshotRecord["kind"];
  readonly name?: string | undefined;
  /** Fires when no client waits for the snapshot any more. */
  readonly signal?: AbortSignal | undefined;
  /** What comes before its files are read. */
  prepare?(): Promise<void>;
}

/**
 * Returns the record of the snapshot, which is ready. After a fault nothing of it is left.
 * @throws SandboxError invalid_argument for a bad name, failed_precondition during another one,
 * resource_exhausted beyond a bound, unavailable, unimplemented, canceled when the signal fired
 */
export async function takeSnapshot(
  context: ClusterContext,
  request: TakeRequest,
): Promise<SnapshotRecord> {
  const { snapshotSettings: settings, takeGate, closing } = context;
  if (settings === undefined) throw missingAbility("snapshot");
  // A bad name is refused before the wait.
  parseSnapshotName(request.team, request.name);
  const { sandboxId } = request.stored.record;
  const signal = request.signal === undefined ? closing : anySignal([closing, request.signal]);
  return takeGate.run({ team: request.team, key: sandboxId, signal }, async () => {
    // It may have been paused or ended during the wait.
    const stored = requireUnchanged(context, request.stored);
    return takeInPlace(context, { ...request, stored });
  });
}

function requireUnchanged({ records }: ClusterContext, { record }: KnownSandbox): KnownSandbox {
  const { sandboxId } = record;
  const stored = records.items.get(sandboxId);
  if (!isKnown(stored)) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  if (stored.record.state === "running" && stored.change === undefined) return stored;
  const message = sandboxCannotBe("snapshotted", sandboxId, "pausing");
  throw new SandboxError("failed_precondition", message);
}

/** As `takeSnapshot`, for a caller that has a place of the front. */
export async function takeInPlace(
  context: ClusterContext,
  request: TakeRequest,
): Promise<SnapshotRecord> {
  const { snapshotSettings: settings, api, snapshots, log } = context;
  if (settings === undefined || snapshots === undefined) throw missingAbility("snapshot");
  const intent = toIntent(context, request, settings);
  const { buildId } = intent;
  const beganMs = performance.now();
  await request.prepare?.();
  try {
    snapshots.apply(await addSnapshot(api, intent));
    await step("image.recorded");
    const image = await push(context, request.stored, { intent, settings });
    await step("image.pushed");
    requireAwaited(request.signal);
    const ready = await changeSnapshot(api, buildId, {
      changes: { state: "ready", image },
      holds: ({ state }) => state === "pending",
    });
    if (ready === undefined) {
      throw new SandboxError("unavailable", "this front was taken for dead: try it again");
    }
    snapshots.apply(ready);
    await step("image.committed");
    const durationMs = Math.round(performance.now() - beganMs);
    const { sandboxId } = request.stored.record;
    log.info({ op: "sandbox.snapshot", sandboxId, durationMs, outcome: "ok" }, "snapshot ok");
    return ready.snapshot;
  } catch (error) {
    await undo(context, intent);
    throw error;
  }
}

function toIntent(
  context: ClusterContext,
  { team, stored: { record }, kind, name }: TakeRequest,
  { registry }: SnapshotSettings,
): SnapshotRecord {
  const { alias = null, tag } = parseSnapshotName(team, name);
  const build = buildOf(context, record);
  const named = alias === null ? randomId() : namedTemplateId(team, alias);
  const isOwn = kind !== "snapshot";
  // Sandboxes of it are described by the template of their source.
  const templateId = isOwn ? record.templateId : named;
  return {
    buildId: randomUUID(),
    templateId,
    team,
    alias: isOwn ? record.alias : alias,
    tag,
    kind,
    state: "pending",
    owner: context.fronts.name,
    isReleased: false,
    sourceSandboxId: record.sandboxId,
    createdAtMs: newestTime(context, templateId),
    registry,
    image: "",
    defaultUser: build.defaultUser,
    defaultWorkdir: build.defaultWorkdir,
  };
}

/** Returns the image as a Pod names it. */
async function push(
  context: ClusterContext,
  stored: KnownSandbox,
  task: { readonly intent: SnapshotRecord; readonly settings: SnapshotSettings },
): Promise<string> {
  const { intent, settings } = task;
  const late = signalAfter(TAKE_TIMEOUT_MS);
  const signal = anySignal([context.closing, late]);
  const { sandboxId } = stored.record;
  const pod = context.pods.items.get(sandboxId);
  const image = pod && imageOf(pod);
  const host = pod && addressOf(pod);
  if (image === undefined || host === undefined) {
    throw new SandboxError("unavailable", "the Pod of the sandbox does not run");
  }
  const source = await findImagePlace(image, settings);
  const [, pinned] = /@(sha256:[0-9a-f]{64})$/.exec((pod && imageIdOf(pod)) ?? "") ?? [];
  const target = await findImagePlace(settings.registry, settings);
  const dialer = context.runs.dialer(stored, host);
  // Those of a snapshot get no volumes.
  const isMountedAgain = intent.kind !== "snapshot";
  const mountPaths = isMountedAgain ? stored.record.volumeMounts.map(({ path }) => path) : [];
  const digest = await pushSnapshot({
    source: createRegistry(source.place, signal),
    reference: pinned ?? source.digest ?? source.tag,
    target: createRegistry(target.place, signal),
    tag: snapshotName(intent.buildId),
    createdAtMs: intent.createdAtMs,
    bounds: boundsOf(context),
    write: async (sink) => writeChanges(context, { sandboxId, dialer, sink, signal, mountPaths }),
  });
  return `${target.name}@${digest}`;
}

interface ChangesTask {
  readonly sandboxId: string;
  readonly dialer: ReturnType<ClusterContext["runs"]["dialer"]>;
  readonly sink: LayerSink;
  readonly signal: AbortSignal;
  readonly mountPaths: readonly string[];
}

function boundsOf({ limits }: ClusterContext): LayerBounds {
  const maxBytes = limits.diskMb * BYTES_PER_MB + HEADROOM_BYTES;
  return { maxBytes, maxEntries: MAX_ENTRIES, maxPathBytes: MAX_PATH_BYTES };
}

async function writeChanges(
  context: ClusterContext,
  { sandboxId, dialer, sink, signal, mountPaths }: ChangesTask,
): Promise<void> {
  const socket = await dialer.dialControl(signal);
  const bounds = boundsOf(context);
  const pace = createPace({
    silenceMs: MAX_SILENCE_MS,
    bytesPerSecond: LEAST_BYTES_PER_SECOND,
    maxBytes: bounds.maxBytes * RAW_SHARE,
  });
  try {
    const call = { method: "GET", path: "/changes", handled: Object.values(REFUSALS) } as const;
    const reply = await pace.await(callDaemon(socket, call, signal));
    requireChanges(reply.statusCode, sandboxId);
    const entries = await writeLayer(pace.read(reply), { ...bounds, mountPaths }, sink);
    const report = readReport(reply.trailers[CHANGES_TRAILER]);
    context.log.info({ op: "snapshot.read", sandboxId, entries, ...report }, "changes were read");
  } finally {
    socket.destroy();
  }
}

function requireChanges(status: number | undefined, sandboxId: string): void {
  if (status === REFUSALS.busy) {
    const message = sandboxCannotBe("snapshotted", sandboxId, "snapshotting");
    const cause = Object.assign(new Error(message), { code: BUSY });
    throw new SandboxError("failed_precondition", message, { cause });
  }
  if (status === REFUSALS.tooOld) {
    const message = "the daemon in the image of this sandbox is too old for this";
    const hint = "export the template again: docs/kubernetes.md";
    throw new SandboxError("unimplemented", message, { hint });
  }
  if (status === REFUSALS.unknown) {
    const message = "the daemon of the sandbox does not know what its image contained";
    throw new SandboxError("failed_precondition", message);
  }
}

/** Whether the daemon tells its changes to another front. */
export function isBusy(error: unknown): boolean {
  return isCode(error, BUSY);
}

/** @throws SandboxError unavailable when the registry does not answer, unimplemented without one */
export async function requireRegistry({
  snapshotSettings: settings,
  closing,
}: ClusterContext): Promise<void> {
  if (settings === undefined) throw missingAbility("snapshot");
  const signal = anySignal([closing, signalAfter(ASK_TIMEOUT_MS)]);
  const { place } = await findImagePlace(settings.registry, settings);
  const question = { method: "HEAD", path: "manifests/none", handled: [404] } as const;
  await createRegistry(place, signal).send(question);
}

/** From now on its image is removed once no sandbox stands on it. */
export async function releaseSnapshot(context: ClusterContext, buildId: string): Promise<void> {
  const work = async () => {
    const changes = { isReleased: true };
    const released = await changeSnapshot(context.api, buildId, { changes, holds: () => true });
    if (released !== undefined) context.snapshots?.apply(released);
  };
  try {
    await work();
  } catch {
    context.retry(`image ${buildId}`, work);
  }
}

/**
 * Where the fault came after the record was ready, a sandbox may have been made from it: that one keeps
 * it. Another front may have removed the record before the image was pushed, so the image goes once more.
 */
async function undo(context: ClusterContext, intent: SnapshotRecord): Promise<void> {
  const { buildId } = intent;
  const work = async () => {
    if (await removeSnapshot(context, buildId)) await removeImageOf(context, intent);
  };
  try {
    await work();
  } catch (error) {
    context.log.warn({ op: "sandbox.snapshot", buildId, err: error }, "snapshot left traces");
    context.retry(`snapshot ${buildId}`, work);
  }
}
