/** Creates with an `Idempotency-Key`: sent again, they are answered and not done again. */

import { createHash } from "node:crypto";
import { SandboxError } from "../common/errors.ts";
import { z } from "../common/schema.ts";
import type { CreateOptions, CreationKey } from "../sandboxes/sandbox.ts";
import { IDEMPOTENCY_KEY_HEADER } from "../wire/headers.ts";
import { toCreatedBody } from "./reply.ts";
import type { ControlContext, RouteReply, RouteRequest } from "./route.ts";

/** As the public clients check it. */
const KEY_PATTERN = /^[a-z0-9-]{1,255}$/;

/** What creates read of their headers, as the document names it. */
export const KEY_HEADERS = { "Idempotency-Key": z.string().regex(KEY_PATTERN) };
export const CREATE_HEADERS = {
  ...KEY_HEADERS,
  Prefer: z.string().meta({ examples: ["wait=5"] }),
};

/**
 * Creates a sandbox, or answers with that which the same key and body made before.
 * @throws SandboxError as `create`, and invalid_argument for a malformed key.
 */
export async function createOnce(
  request: KeyedRequest & Pick<RouteRequest<unknown, unknown, unknown>, "signal">,
  { sandboxes, domain }: ControlContext,
  options: CreateOptions,
): Promise<RouteReply> {
  const once = readCreationKey(request);
  const sandbox = await sandboxes.create({ ...options, once }, request.signal);
  return { status: 201, body: toCreatedBody(sandbox, domain) };
}

type KeyedRequest = Pick<RouteRequest<unknown, unknown, unknown>, "headers" | "path" | "raw">;

/**
 * The key of a request that may be sent again; undefined without one.
 * @throws SandboxError invalid_argument for a malformed one.
 */
export function readCreationKey(request: KeyedRequest): CreationKey | undefined {
  const key = readKey(request.headers[IDEMPOTENCY_KEY_HEADER]);
  return key === undefined ? undefined : { key, fingerprint: fingerprintOf(request) };
}

function readKey(value: string | string[] | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "string" && KEY_PATTERN.test(value)) return value;
  throw new SandboxError(
    "invalid_argument",
    "validation error: header: Idempotency-Key: expected 1 to 255 of a-z, 0-9 and -",
  );
}

/** Bytes, not meaning: a client that repeats a request sends it as it was. */
function fingerprintOf({ path, raw }: { readonly path: string; readonly raw: Buffer }): string {
  return createHash("sha256").update(`${path}\n`).update(raw).digest("hex");
}
