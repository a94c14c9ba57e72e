/** What is derived from the one secret of a home: tokens of sandboxes, sealing of environments. */

import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  randomBytes,
  type KeyObject,
} from "node:crypto";
import { link, open, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { causeCode, SandboxError } from "../common/errors.ts";
import { syncFolder } from "../common/files.ts";
import type { Store } from "../store/store.ts";

const SEED_BYTES = 32;
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
  const seed = (await readSeed(path)) ?? (await makeSeed(path));
  const fingerprint = createHash("sha256").update(seed).digest("hex");
  const known = store.facts.get(FINGERPRINT);
  if (known === undefined) store.facts.put(FINGERPRINT, fingerprint);
  else if (known !== fingerprint) {
    throw new SandboxError("failed_precondition", `${path} is not the seed of the database`, {
      hint: "restore it, or remove the database together with it: tokens derive from both",
    });
  }
  return createSecrets(seed);
}

/** The secrets of a given seed. */
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

async function readSeed(path: string): Promise<Buffer | undefined> {
  try {
    const seed = await readFile(path);
    if (seed.length === SEED_BYTES) return seed;
    throw new SandboxError("failed_precondition", `${path} holds ${seed.length} bytes, not 32`);
  } catch (error) {
    if (causeCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Linked into place when complete, so that no process ever reads half of it. */
async function makeSeed(path: string): Promise<Buffer> {
  const part = `${path}.${randomBytes(8).toString("hex")}`;
  const file = await open(part, "wx", 0o600);
  try {
    await file.writeFile(randomBytes(SEED_BYTES));
    await file.sync();
    await link(part, path);
    // The database will hold its fingerprint: it must not outlive the seed in a power cut.
    await syncFolder(dirname(path));
  } catch (error) {
    // Another process of the same home was faster: its seed counts.
    if (causeCode(error) !== "EEXIST") throw error;
  } finally {
    await file.close();
    await rm(part, { force: true });
  }
  const seed = await readSeed(path);
  if (seed === undefined) throw new SandboxError("unavailable", `${path} vanished`);
  return seed;
}

/** The environment that a record carries under seal. */
export function openEnvironment(secrets: Secrets, sealed: string | null): Record<string, string> {
  return sealed === null ? {} : JSON.parse(secrets.unseal(sealed));
}
