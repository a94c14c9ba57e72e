/** The one secret of an installation, in a Secret of the namespace: every front derives the rest from it. */

import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  randomBytes,
  type KeyObject,
} from "node:crypto";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { createSecrets, type Secrets } from "../sandboxes/secrets.ts";
import type { ClusterApi } from "./api/api.ts";
import { readObject } from "./api/object-calls.ts";
import { configMapSchema, partLabels } from "./api/objects.ts";

const NAME = "sandbox-mcp-seed";
const SEED_BYTES = 32;
/** What stands before the 32 bytes of an Ed25519 key in PKCS #8. */
const PKCS8_PREFIX = "302e020100300506032b657004220420";

export interface ClusterSecrets {
  readonly secrets: Secrets;
  /** Signs the passes with which fronts enter Pods. */
  readonly passKey: KeyObject;
  /** What Pods are told of it. */
  readonly passPublicKey: string;
}

/**
 * Reads the seed, or makes it: of several fronts that do so at once, one wins.
 * @throws SandboxError failed_precondition when the Secret is not ours, as `ClusterApi.call`.
 */
export async function openClusterSecrets(api: ClusterApi): Promise<ClusterSecrets> {
  return deriveSecrets((await readSeed(api)) ?? (await makeSeed(api)));
}

/** What follows from a seed. */
export function deriveSecrets(seed: Buffer): ClusterSecrets {
  const bytes = createHmac("sha256", seed).update("pod-pass|1").digest();
  const passKey = createPrivateKey({
    key: Buffer.concat([Buffer.from(PKCS8_PREFIX, "hex"), bytes]),
    format: "der",
    type: "pkcs8",
  });
  const publicKey = createPublicKey(passKey).export({ format: "der", type: "spki" });
  return { secrets: createSecrets(seed), passKey, passPublicKey: publicKey.toString("base64url") };
}

async function readSeed(api: ClusterApi): Promise<Buffer | undefined> {
  // Secrets have the same form.
  const secret = await readObject(api, { path: `secrets/${NAME}` }, configMapSchema);
  if (secret === undefined) return undefined;
  const seed = Buffer.from(secret.data?.["seed"] ?? "", "base64");
  if (seed.length === SEED_BYTES) return seed;
  throw new SandboxError("failed_precondition", `Secret ${NAME} holds no seed of 32 bytes`);
}

async function makeSeed(api: ClusterApi): Promise<Buffer> {
  const data = { seed: randomBytes(SEED_BYTES).toString("base64") };
  const metadata = { name: NAME, labels: partLabels("seed") };
  const body = { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data };
  try {
    await api.call({ method: "POST", path: "secrets", body });
  } catch (error) {
    if (!hasErrorCode(error, "already_exists")) throw error;
  }
  const seed = await readSeed(api);
  if (seed === undefined) throw new SandboxError("unavailable", `Secret ${NAME} vanished`);
  return seed;
}
