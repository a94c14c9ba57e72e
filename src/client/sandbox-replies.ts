/**
 * Replies about sandboxes, also as services of other makers write them: with null or an empty text for what
 * is absent, and without what no client of E2B reads.
 */

import { z } from "../common/schema.ts";
import { parseSandboxId } from "../wire/address.ts";
import {
  createdSandboxSchema,
  forkResultSchema,
  listedSandboxSchema,
  metricSchema,
  sandboxDetailSchema,
  sandboxSchema,
} from "../wire/control.ts";

const text = z.string().default("");
/** Without its deprecated suffix. What is none would be shown, and sent in paths, as any text. */
const sandboxID = z.string().transform((id, context) => {
  const plain = parseSandboxId(id);
  if (plain === undefined) context.addIssue("not an id of a sandbox");
  return plain ?? z.NEVER;
});
const HOST_PATTERN = /^[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?(?::[0-9]{1,5})?$/i;
/** What hosts of sandboxes are made of: with another text they would be those of others, or none. */
const domain = z
  .string()
  .refine((name) => name === "" || isDomain(name), "not a domain")
  .transform((name) => name || undefined)
  .optional();
const envdAccessToken = z
  .string()
  .transform((token) => token || undefined)
  .optional();
const ACCESS = { domain, envdAccessToken };
const UNREAD = { sandboxID, clientID: text, envdVersion: text };

const { lifecycle, pauseMode, pausedMemory, pausedMemoryFault, pauseReason } =
  sandboxDetailSchema.shape;
const lifecycleSchema = lifecycle.unwrap().extend({
  autoResume: z.boolean().default(false),
  onTimeout: lifecycle.unwrap().shape.onTimeout.catch(undefined),
});
/** A word of a newer service is none that this version could tell; the rest of the reply counts. */
const WORDS = {
  lifecycle: lifecycleSchema.optional(),
  pauseMode: pauseMode.catch(undefined),
  pausedMemory: pausedMemory.catch(undefined),
  pausedMemoryFault: pausedMemoryFault.catch(undefined),
  pauseReason: pauseReason.catch(undefined),
};
const createdSchema = createdSandboxSchema.extend({ ...UNREAD, ...ACCESS, templateID: text });

export const sandboxReply = lenient(
  sandboxSchema.extend({ ...UNREAD, ...ACCESS, templateID: text }),
);
export const detailReply = lenient(sandboxDetailSchema.extend({ ...UNREAD, ...ACCESS, ...WORDS }));
export const listReply = lenient(z.array(listedSandboxSchema.extend(UNREAD)));
export const forkReply = lenient(
  z.array(forkResultSchema.extend({ sandbox: createdSchema.optional() })),
);

/** Daemons of older services measure no cache. */
const UNREAD_SIZE = z.number().default(0);
export const metricsReply = lenient(
  z.array(metricSchema.extend({ memCache: UNREAD_SIZE, timestampUnix: UNREAD_SIZE })),
);

/** Of a create from this template: a sandbox whose reply cannot be read would be left. */
export function createdReply(templateID: string) {
  return lenient(createdSchema.extend({ templateID: z.string().default(templateID) }));
}

function isDomain(name: string): boolean {
  return HOST_PATTERN.test(name) && URL.canParse(`https://a.${name}`);
}

/** The schema for a value in which null stands for what is absent. */
export function lenient<T>(schema: z.ZodType<T>) {
  return z.preprocess(withoutNulls, schema);
}

/** Bounded by the depth of replies. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item));
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(fields.map(([name, field]) => [name, withoutNulls(field)]));
}
