/** Signatures of file URLs. The algorithm is fixed by the wire: docs/wire.md#signatures. */

import { createHash, timingSafeEqual } from "node:crypto";

export interface SignedFile {
  /** Exactly as in the URL after decoding; empty when absent. */
  readonly path: string;
  readonly operation: "read" | "write";
  /** As in the URL; empty when absent. */
  readonly username: string;
  /** Unix seconds after which the signature no longer counts. */
  readonly expiration?: number | undefined;
}

/** The signature that grants one operation on one path to each holder of the URL. */
export function signFile(file: SignedFile, token: string): string {
  const parts = [file.path, file.operation, file.username, token];
  if (file.expiration !== undefined) parts.push(String(file.expiration));
  const digest = createHash("sha256").update(parts.join(":"), "utf8").digest("base64");
  return `v1_${digest.replaceAll("=", "")}`;
}

/** Whether two secrets are equal, in time that does not depend on where they differ. */
export function equalSecrets(left: string, right: string): boolean {
  const digests = [left, right].map((text) => createHash("sha256").update(text, "utf8").digest());
  const [first, second] = digests;
  return first !== undefined && second !== undefined && timingSafeEqual(first, second);
}

const EXPIRATION_PATTERN = /^[0-9]{1,15}$/;

/**
 * The `signature_expiration` of a URL in Unix seconds; "invalid" unless it is plain digits.
 * An absent parameter is undefined.
 */
export function parseExpiration(value: string | null): number | undefined | "invalid" {
  if (value === null) return undefined;
  return EXPIRATION_PATTERN.test(value) ? Number(value) : "invalid";
}
