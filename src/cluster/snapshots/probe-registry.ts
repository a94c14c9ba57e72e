/** What `doctor` asks of the registry for snapshots: whether it takes, gives and removes what is pushed. */

import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { pushDocument } from "./blobs.ts";
import { findImagePlace, type SnapshotSettings } from "./image-place.ts";
import { createRegistry, type Registry } from "./registry.ts";

const PROBE_TIMEOUT_MS = 30_000;
const REFUSED = 400;

/** @throws SandboxError unavailable, failed_precondition */
export async function tryRegistry(settings: SnapshotSettings): Promise<string> {
  const { place, name } = await findImagePlace(settings.registry, settings);
  const registry = createRegistry(place, signalAfter(PROBE_TIMEOUT_MS));
  try {
    const canDelete = await pushAndRemove(registry);
    const removal = canDelete
      ? "removed again"
      : "not removed: images of snapshots stay in this registry after their end";
    return `${name}: a blob was pushed, read and ${removal}`;
  } catch (error) {
    const { message, hint } = toSandboxError(error, "registry");
    throw new SandboxError("unavailable", `${name}: ${message}`, {
      cause: error,
      hint: hint ?? "check --snapshot-registry, --snapshot-registry-login and the network",
    });
  }
}

async function pushAndRemove(registry: Registry): Promise<boolean> {
  // Without a content of its own it could be a blob that others use.
  const { digest } = await pushDocument(registry, { probe: crypto.randomUUID() });
  const path = `blobs/${digest}`;
  await registry.send({ method: "GET", path });
  const handled = [400, 401, 403, 404, 405, 501];
  const { status } = await registry.send({ method: "DELETE", path, handled });
  return status < REFUSED;
}
