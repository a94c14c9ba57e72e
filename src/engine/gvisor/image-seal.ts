/**
 * The keys of encrypted images of memory. Each image has one of its own, derived from the key of the
 * home, a random salt and what the image is of; without its salt nothing of the image can be read.
 */

import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  randomBytes,
  type KeyObject,
} from "node:crypto";
import { basename, dirname, join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { openSecret, readSecret } from "../../common/secret-file.ts";

const KEY_NAME = "memory-key";
const KEY_BYTES = 32;
const SALT_BYTES = 32;
const TAG_BYTES = 16;
const FINGERPRINT_BYTES = 8;
/** No chunk of an image has this number. */
const TEXT_NONCE = Buffer.alloc(12, 0xff);

/** Whether the engine encrypts new images, and where the key of all is. */
export interface ImageKeys {
  readonly home: string;
  readonly isOn: boolean;
}

export const sealSchema = z.object({
  /** Tells the key of the home from another one. */
  key: z.string().max(64),
  salt: z.string().max(64),
});

export type SealFacts = z.infer<typeof sealSchema>;

export interface ImageSeal {
  /** What has to be kept beside the image. */
  readonly facts: SealFacts;
  readonly key: KeyObject;
}

/** What the image in a folder is of: copies are named for themselves, a pause for its container. */
export function subjectOf(folder: string): string {
  const name = basename(folder);
  return name === "memory" ? `pause ${basename(dirname(dirname(folder)))}` : `copy ${name}`;
}

/** A seal for one new image; makes the key of the home where there is none. */
export async function newSeal({ home }: ImageKeys, subject: string): Promise<ImageSeal> {
  const root = await openSecret(join(home, KEY_NAME));
  const salt = randomBytes(SALT_BYTES);
  const facts = { key: fingerprintOf(root), salt: salt.toString("base64") };
  return { facts, key: derive(root, salt, subject) };
}

/** The seal of an image that is there; else why its key is not at hand. */
export async function findSeal(
  { home }: Pick<ImageKeys, "home">,
  facts: SealFacts,
  subject: string,
): Promise<ImageSeal | string> {
  const root = await readRoot(home);
  if (typeof root === "string") return root;
  if (fingerprintOf(root) !== facts.key) return "it was encrypted with another key";
  return { facts, key: derive(root, Buffer.from(facts.salt, "base64"), subject) };
}

/** The key of a home; else why it is not at hand. */
async function readRoot(home: string): Promise<Buffer | string> {
  try {
    return (await readSecret(join(home, KEY_NAME))) ?? "the key of this home is gone";
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    return "the key of this home is damaged";
  }
}

/** A short text under the key of an image; `context` has to be the same when it is opened. */
export function sealText({ key }: ImageSeal, text: string, context: string): string {
  const cipher = createCipheriv("aes-256-gcm", key, TEXT_NONCE).setAAD(Buffer.from(context));
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([cipher.getAuthTag(), body]).toString("base64");
}

/** Undefined where it is not the text, the key or the context. */
export function openText({ key }: ImageSeal, sealed: string, context: string): string | undefined {
  const bytes = Buffer.from(sealed, "base64");
  if (bytes.length < TAG_BYTES) return undefined;
  const options = { authTagLength: TAG_BYTES };
  const decipher = createDecipheriv("aes-256-gcm", key, TEXT_NONCE, options);
  decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(0, TAG_BYTES));
  try {
    const body = decipher.update(bytes.subarray(TAG_BYTES));
    return Buffer.concat([body, decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

function derive(root: Buffer, salt: Buffer, subject: string): KeyObject {
  const info = `sandbox-mcp memory image 1 ${subject}`;
  return createSecretKey(Buffer.from(hkdfSync("sha256", root, salt, info, KEY_BYTES)));
}

function fingerprintOf(root: Buffer): string {
  const bytes = hkdfSync("sha256", root, "", "sandbox-mcp memory key", FINGERPRINT_BYTES);
  return Buffer.from(bytes).toString("hex");
}
