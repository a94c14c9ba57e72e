/** Calls that show all that is documented of templates themselves: for each route, by status. */

import type { RowMakers } from "./tag-rows.ts";

export interface TemplateRowMakers<Row> extends Pick<RowMakers<Row>, "call" | "made"> {
  /** Makes a snapshot, of that name if there is one. */
  readonly snapshotOf: (name?: string) => Promise<string>;
  /** The token of the second page of a list. */
  readonly secondPage: (path: string) => Promise<string>;
}

/** Faults that every route has are asked for elsewhere. */
export function templateRows<Row>({ call, made, snapshotOf, secondPage }: TemplateRowMakers<Row>) {
  return {
    "GET /templates": { 200: call("/templates") },
    "GET /default-templates": { 200: call("/default-templates") },
    "GET /v2/templates": {
      200: [call("/v2/templates?limit=1"), call("/v2/templates?nextToken=")],
      400: call("/v2/templates?nextToken=x"),
    },
    "GET /templates/{templateID}": {
      200: [
        call("/templates/serving"),
        made(async () => {
          for (let build = 0; build < 3; build += 1) await snapshotOf("grown");
          const path = `/templates/${encodeURIComponent("local/grown")}`;
          return { path: `${path}?limit=1&nextToken=${await secondPage(path)}` };
        }),
      ],
    },
    "DELETE /templates/{templateID}": {
      204: made(async () => ({ path: `/templates/${encodeURIComponent(await snapshotOf())}` })),
      403: call("/templates/base"),
    },
    "PATCH /templates/{templateID}": {
      200: call("/templates/kept", { public: false }),
      403: call("/templates/base", { public: false }),
    },
    "PATCH /v2/templates/{templateID}": {
      200: call("/v2/templates/kept", { public: false }),
      403: call("/v2/templates/base", { public: false }),
    },
    "GET /templates/aliases/{alias}": { 200: call("/templates/aliases/base") },
  };
}
