/** `GET /v2/sandboxes`: filtered, ordered, in pages. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { parseTemplateReference } from "../../wire/address.ts";
import { NEXT_TOKEN_HEADER, TOTAL_RUNNING_HEADER } from "../../wire/headers.ts";
import { parseMetadataFilter } from "../metadata-filter.ts";
import { ignored, pageLimit } from "../parameters.ts";
import { toListedBody } from "../reply.ts";
import { defineRoute, type ControlContext } from "../route.ts";

const STATES = ["running", "paused"] as const;

const querySchema = z.object({
  metadata: z.string().optional(),
  state: z
    .string()
    .transform((text) => text.split(","))
    .pipe(z.array(z.enum(STATES)))
    .optional(),
  order: z.string().default("desc"),
  startedAfter: z.iso.datetime({ offset: true }).optional(),
  template: z.string().optional(),
  nextToken: z.string().optional(),
  limit: pageLimit,
});

export const listSandboxesV2Route = defineRoute({
  method: "GET",
  path: "/v2/sandboxes",
  auth: "key",
  params: ignored,
  query: querySchema,
  body: ignored,
  async handle({ query }, context) {
    const { order, limit, nextToken: token } = query;
    if (order !== "asc" && order !== "desc") {
      throw new SandboxError("invalid_argument", `Invalid order parameter: ${order}`);
    }
    const states = query.state ?? STATES;
    const list = context.sandboxes.list({
      states,
      metadata: parseMetadataFilter(query.metadata),
      startedAfterMs: query.startedAfter === undefined ? undefined : Date.parse(query.startedAfter),
      templateId: query.template === undefined ? undefined : findTemplate(query.template, context),
      page: { order, limit, token },
    });
    return {
      status: 200,
      body: list.items.map(toListedBody),
      headers: {
        ...(list.nextToken !== undefined && { [NEXT_TOKEN_HEADER]: list.nextToken }),
        ...(states.includes("running") && { [TOTAL_RUNNING_HEADER]: String(list.totalRunning) }),
      },
    };
  },
});

/** An unknown template is one that no sandbox has. */
function findTemplate(reference: string, { sandboxes }: ControlContext): string {
  const parsed = parseTemplateReference(reference);
  if (parsed === undefined) {
    throw new SandboxError(
      "invalid_argument",
      `Invalid template: invalid template ID: ${reference}`,
    );
  }
  if (parsed.tag !== undefined) {
    throw new SandboxError(
      "invalid_argument",
      "Invalid template: tags are not supported here because sandboxes are not tag-scoped",
    );
  }
  return sandboxes.templates.peek(reference)?.templateId ?? "";
}
