/** What is derived from the one secret of a home: tokens of sandboxes, sealing of environments. */

import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  randomBytes,
  type KeyObject,
} from "node:crypto";
import { join } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { sha256Hex } from "../common/hash.ts";
import { openSecret } from "../common/secret-file.ts";
import type { SandboxRecord, Store } from "../store/store.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const FINGERPRINT = "seed-fingerprint";

export interface Secrets {
  /** Sixty-four hex digits, the same for the whole life of a sandbox, different for each. */
  accessToken(sandboxId: string): string;
  trafficToken(sandboxId: string): string;
  volumeToken(volumeId: string): string;
  /** Signs the addresses of uploads. */
  readonly uploadKey: string;
  seal(text: string): string;
  /** @throws SandboxError internal when it was sealed under another seed. */
  unseal(sealed: string): string;
}

/**
 * Reads the seed of the home, or makes it.
 * @throws SandboxError failed_precondition when the database belongs to another seed.
 */
export async function openSecrets(home: string, store: Store): Promise<Secrets> {
  const path = join(home, "seed");
  const seed = await openSecret(path);
  const fingerprint = sha256Hex(seed);
  const known = store.facts.get(FINGERPRINT);
  if (known === undefined) store.facts.put(FINGERPRINT, fingerprint);
  else if (known !== fingerprint) {
    throw new SandboxError("failed_precondition", `${path} is not the seed of the database`, {
      hint: "restore it, or remove the database together with it: tokens derive from both",
    });
  }
  return createSecrets(seed);
}

/** Whether a service has ever used the database. */
export function wasServed(store: Store): boolean {
  return store.facts.get(FINGERPRINT) !== undefined;
}

export function createSecrets(seed: Buffer): Secrets {
  // Bytes would be made a key for each derivation, which takes seven times as long as the rest.
  const root = createSecretKey(seed);
  const key = derive(root, "environment|1");
  return {
    accessToken: (sandboxId) => derive(root, `envd|1|${sandboxId}`).toString("hex"),
    trafficToken: (sandboxId) => derive(root, `traffic|1|${sandboxId}`).toString("hex"),
    volumeToken: (volumeId) => derive(root, `volume|1|${volumeId}`).toString("hex"),
    uploadKey: derive(root, "upload|1").toString("hex"),
    seal(text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", key, nonce);
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64");
    },
    unseal(sealed) {
      const bytes = Buffer.from(sealed, "base64");
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES));
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      try {
        const body = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
        return Buffer.concat([body, decipher.final()]).toString("utf8");
      } catch (error) {
        throw new SandboxError("internal", "a sealed value does not open", { cause: error });
      }
    },
  };
}

function derive(root: KeyObject, label: string): Buffer {
  return createHmac("sha256", root).update(label).digest();
}

/** The environment that a record carries under seal. */
export function openEnvironment(secrets: Secrets, sealed: string | null): Record<string, string> {
  return sealed === null ? {} : JSON.parse(secrets.unseal(sealed));
}

/** The tokens of the sandbox of a record; undefined where it needs none. */
export function tokensOf(
  { sandboxId, isSecured, isPrivate }: Pick<SandboxRecord, "sandboxId" | "isSecured" | "isPrivate">,
  secrets: Pick<Secrets, "accessToken" | "trafficToken">,
): Readonly<Record<"accessToken" | "trafficToken", string | undefined>> {
  return {
    accessToken: isSecured ? secrets.accessToken(sandboxId) : undefined,
    trafficToken: isPrivate ? secrets.trafficToken(sandboxId) : undefined,
  };
}
