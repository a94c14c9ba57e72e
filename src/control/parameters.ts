/** Parameters of paths and queries that several routes share. */

import { SandboxError } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import { parseSandboxId } from "../wire/address.ts";
import { MESSAGES } from "../wire/messages.ts";

const MAX_INT32 = 2_147_483_647;
const MAX_PAGE_SIZE = 100;

/** For routes without parameters, and for bodies and queries that nobody reads. */
export const ignored = z.unknown();

export const sandboxParams = z.object({ sandboxID: z.string() });
export const templateParams = z.object({ templateID: z.string() });

/** @throws SandboxError invalid_argument when it cannot be an identifier. */
export function readSandboxId(params: { readonly sandboxID: string }): string {
  const sandboxId = parseSandboxId(params.sandboxID);
  if (sandboxId === undefined) {
    throw new SandboxError("invalid_argument", MESSAGES.invalidSandboxId);
  }
  return sandboxId;
}

/** A whole number in a query. */
export function wholeNumber(min: number, max: number = MAX_INT32) {
  return z
    .string()
    .regex(/^[0-9]{1,16}$/, "expected a whole number")
    .transform(Number)
    .pipe(z.number().min(min).max(max));
}

export const pageLimit = wholeNumber(1, MAX_PAGE_SIZE).default(MAX_PAGE_SIZE);

/** Of lists in pages. */
export const pageQuery = z.object({ limit: pageLimit, nextToken: z.string().optional() });

/** @throws SandboxError invalid_argument unless it is above 0. */
export function requirePositive(seconds: number): void {
  if (seconds <= 0) throw new SandboxError("invalid_argument", MESSAGES.timeoutNotPositive);
}
