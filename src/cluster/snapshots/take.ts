/** Takes a snapshot of a sandbox that is a Pod: its record as intent, its image, and only then the answer. */

import { randomUUID } from "node:crypto";
import { createGate, type Gate } from "../../common/concurrency.ts";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { step } from "../../common/steps.ts";
import { DEFAULT_TAG } from "../../sandboxes/built-ins.ts";
import { callDaemon } from "../../sandboxes/daemon-call.ts";
import { parseTemplateReference, randomId } from "../../wire/address.ts";
import { foreignNamespace, sandboxCannotBe } from "../../wire/messages.ts";
import { CHANGES_TRAILER } from "../../wire/pod-listener.ts";
import { cannot } from "../cannot.ts";
import type { ClusterContext } from "../context.ts";
import { addressOf } from "../objects.ts";
import type { KnownSandbox } from "../records.ts";
import { readReport, writeLayer, type LayerSink } from "./layer.ts";
import { findImagePlace, type SnapshotSettings } from "./place.ts";
import { pushSnapshot, removeImage } from "./push.ts";
import {
  addSnapshot,
  changeSnapshot,
  eraseSnapshot,
  namedTemplateId,
  snapshotName,
  type SnapshotRecord,
} from "./records.ts";
import { createRegistry } from "./registry.ts";
import { buildOf } from "./snapshots.ts";

/** All of it: reading, compressing, and pushing to a registry that may be slow. */
const TAKE_TIMEOUT_MS = 15 * 60_000;
const REMOVE_TIMEOUT_MS = 60_000;
/** Each compresses and keeps a connection to a Pod and to the registry. */
const TAKEN_AT_ONCE = 4;
const BYTES_PER_MB = 1024 * 1024;
/** Headers of an archive are no part of the disk limit. */
const HEADROOM_BYTES = 64 * BYTES_PER_MB;
const MAX_ENTRIES = 1_000_000;
const MAX_PATH_BYTES = 64 * BYTES_PER_MB;
const REFUSALS = { busy: "409", tooOld: "404" } as const;

/** Bounds what one front does at once. */
export function createTakeGate(): Gate {
  return createGate(TAKEN_AT_ONCE);
}

export interface TakeRequest {
  readonly team: string;
  readonly stored: KnownSandbox;
  readonly kind: "snapshot" | "fork";
  readonly name?: string | undefined;
}

/**
 * Returns the record of the snapshot, which is ready. After a fault nothing of it is left.
 * @throws SandboxError invalid_argument for a bad name, failed_precondition during another one,
 * resource_exhausted beyond a bound, unavailable, unimplemented
 */
export async function takeSnapshot(
  context: ClusterContext,
  request: TakeRequest,
): Promise<SnapshotRecord> {
  const { snapshotSettings: settings, api, snapshots, log } = context;
  if (settings === undefined || snapshots === undefined) throw cannot("snapshot");
  const intent = toIntent(context, request, settings);
  const beganMs = performance.now();
  return context.takeGate.run(async () => {
    snapshots.apply(await addSnapshot(api, intent));
    const { buildId } = intent;
    try {
      await step("image.recorded");
      const image = await push(context, request.stored, { intent, settings });
      await step("image.pushed");
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
  });
}

function toIntent(
  context: ClusterContext,
  { team, stored: { record }, kind, name }: TakeRequest,
  { registry }: SnapshotSettings,
): SnapshotRecord {
  const { alias, tag } = parseName(team, name);
  const build = buildOf(context, record);
  const named = alias === null ? randomId() : namedTemplateId(team, alias);
  const isFork = kind === "fork";
  return {
    buildId: randomUUID(),
    // Forks are described by the template of their source.
    templateId: isFork ? record.templateId : named,
    team,
    alias: isFork ? record.alias : alias,
    tag,
    kind,
    state: "pending",
    owner: context.fronts.name,
    isReleased: false,
    sourceSandboxId: record.sandboxId,
    createdAtMs: context.clock.now(),
    registry,
    image: "",
    defaultUser: build.defaultUser,
    defaultWorkdir: build.defaultWorkdir,
  };
}

function parseName(team: string, name: string | undefined) {
  if (name === undefined) return { alias: null, tag: DEFAULT_TAG };
  const parsed = parseTemplateReference(name);
  if (parsed === undefined) {
    throw new SandboxError("invalid_argument", `Invalid name: ${name.slice(0, 200)}`);
  }
  if (parsed.namespace !== undefined && parsed.namespace !== team) {
    throw new SandboxError("invalid_argument", foreignNamespace(parsed.namespace, team));
  }
  return { alias: parsed.alias, tag: parsed.tag ?? DEFAULT_TAG };
}

/** Returns the image as a Pod names it. */
async function push(
  context: ClusterContext,
  stored: KnownSandbox,
  task: { readonly intent: SnapshotRecord; readonly settings: SnapshotSettings },
): Promise<string> {
  const { intent, settings } = task;
  const late = AbortSignal.timeout(TAKE_TIMEOUT_MS);
  const signal = AbortSignal.any([context.closing, late]);
  const { sandboxId } = stored.record;
  const pod = context.pods.items.get(sandboxId);
  const [container] = pod?.spec?.containers ?? [];
  const host = pod && addressOf(pod);
  if (container?.image === undefined || host === undefined) {
    throw new SandboxError("unavailable", "the Pod of the sandbox does not run");
  }
  const source = await findImagePlace(container.image, settings);
  const [, pinned] = /@(sha256:[0-9a-f]{64})$/.exec(
    pod?.status?.containerStatuses?.[0]?.imageID ?? "",
  ) ?? [undefined, undefined];
  const target = await findImagePlace(settings.registry, settings);
  const dialer = context.runs.dialer(stored, host);
  const digest = await pushSnapshot({
    source: createRegistry(source.place, signal),
    reference: pinned ?? source.digest ?? source.tag,
    target: createRegistry(target.place, signal),
    tag: snapshotName(intent.buildId),
    createdAtMs: intent.createdAtMs,
    write: async (sink) => writeChanges(context, { sandboxId, dialer, sink, signal }),
  });
  return `${target.name}@${digest}`;
}

interface ChangesTask {
  readonly sandboxId: string;
  readonly dialer: ReturnType<ClusterContext["runs"]["dialer"]>;
  readonly sink: LayerSink;
  readonly signal: AbortSignal;
}

async function writeChanges(
  { limits, log }: ClusterContext,
  { sandboxId, dialer, sink, signal }: ChangesTask,
): Promise<void> {
  const socket = await dialer.dialControl(signal);
  try {
    const call = { method: "GET", path: "/changes" } as const;
    const reply = await callDaemon(socket, call, signal).catch((error: unknown) => {
      throw toRefusal(error, sandboxId);
    });
    const maxBytes = limits.diskMb * BYTES_PER_MB + HEADROOM_BYTES;
    const bounds = { maxBytes, maxEntries: MAX_ENTRIES, maxPathBytes: MAX_PATH_BYTES };
    const entries = await writeLayer(reply, bounds, sink);
    const report = readReport(reply.trailers[CHANGES_TRAILER]);
    log.info({ op: "snapshot.read", sandboxId, entries, ...report }, "changes were read");
  } finally {
    socket.destroy();
  }
}

function toRefusal(cause: unknown, sandboxId: string): SandboxError {
  const fault = toSandboxError(cause, "sandbox");
  if (fault.code !== "internal") return fault;
  if (fault.message.endsWith(REFUSALS.busy)) {
    const message = sandboxCannotBe("snapshotted", sandboxId, "snapshotting");
    return new SandboxError("failed_precondition", message, { cause });
  }
  if (fault.message.endsWith(REFUSALS.tooOld)) {
    const message = "the daemon in the image of this sandbox is too old for this";
    const hint = "export the template again: docs/kubernetes.md";
    return new SandboxError("unimplemented", message, { cause, hint });
  }
  const message = "the daemon of the sandbox does not know what its image contained";
  return new SandboxError("failed_precondition", message, { cause });
}

/** Removes the image and the record of one whose end was decided. Idempotent. */
export async function removeSnapshot(context: ClusterContext, buildId: string): Promise<void> {
  const { api, snapshots } = context;
  const removing = await changeSnapshot(api, buildId, {
    changes: { state: "removing" },
    holds: () => true,
  });
  if (removing !== undefined) {
    snapshots?.apply(removing);
    await step("image.removing");
    await removeImageOf(context, removing.snapshot);
    await step("image.removed");
  }
  await eraseSnapshot(api, buildId);
  snapshots?.drop(snapshotName(buildId));
  await step("image.erased");
}

async function removeImageOf(
  { snapshotSettings: settings, closing, log }: ClusterContext,
  { buildId, registry }: SnapshotRecord,
): Promise<void> {
  if (settings === undefined) return;
  const signal = AbortSignal.any([closing, AbortSignal.timeout(REMOVE_TIMEOUT_MS)]);
  const { place } = await findImagePlace(registry, settings);
  const isGone = await removeImage(createRegistry(place, signal), snapshotName(buildId));
  if (!isGone) log.warn({ op: "snapshot.remove", buildId }, "the registry removes no images");
}

/** Another front may have removed the record before the image was pushed: the image goes first here. */
async function undo(context: ClusterContext, intent: SnapshotRecord): Promise<void> {
  const { buildId } = intent;
  const work = async () => {
    await removeImageOf(context, intent);
    await removeSnapshot(context, buildId);
  };
  try {
    await work();
  } catch (error) {
    context.log.warn({ op: "sandbox.snapshot", buildId, err: error }, "snapshot left traces");
    context.retry(`snapshot ${buildId}`, work);
  }
}
