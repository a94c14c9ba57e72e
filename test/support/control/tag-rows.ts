/** Calls that show all that is documented of tags: for each route, by status. */

import type { Call } from "../service.ts";

type Asked = Omit<Call, "method">;

export interface RowMakers<Row> {
  readonly call: (path: string, body?: unknown) => Row;
  readonly made: (make: () => Promise<Asked>) => Row;
  /** Makes a snapshot of that name. */
  readonly snapshotOf: (name: string) => Promise<string>;
  /** Puts tags on a template. */
  readonly tag: (target: string, tags: string[]) => unknown;
}

/** Faults that every route has are asked for elsewhere. */
export function tagRows<Row>({ call, made, snapshotOf, tag }: RowMakers<Row>) {
  const tagged = (rest: string) =>
    made(async () => {
      await snapshotOf("tagged:one");
      await snapshotOf("tagged:two");
      return { path: `/templates/tagged/tags/${rest}` };
    });
  const cursor = Buffer.from("1:none").toString("base64url");
  const groups = `groups?assignmentLimit=1&tagsLimit=5&search=o&sort=name_asc&tagsCursor=${cursor}`;
  return {
    "GET /templates/{templateID}/tags/count": { 200: tagged("count") },
    "GET /templates/{templateID}/tags/exists": {
      200: tagged("exists?tag=One"),
      400: call("/templates/base/tags/exists?tag=a%20b"),
    },
    "GET /templates/{templateID}/tags/groups": {
      200: [tagged("groups"), tagged(groups)],
      400: call("/templates/base/tags/groups?tagsCursor=x"),
    },
    "GET /templates/{templateID}/tags/{tag}/assignments": {
      200: tagged("one/assignments?limit=1&cursor="),
      400: call("/templates/base/tags/default/assignments?cursor=x"),
    },
    "GET /templates/{templateID}/tags": { 200: call("/templates/kept/tags") },
    "POST /templates/tags": {
      201: call("/templates/tags", { target: "kept", tags: ["v1"] }),
      400: call("/templates/tags", { target: "kept", tags: [] }),
      403: call("/templates/tags", { target: "base", tags: ["v1"] }),
      404: call("/templates/tags", { target: "none", tags: ["v1"] }),
    },
    "DELETE /templates/tags": {
      204: made(async () => {
        tag("kept", ["gone"]);
        return { path: "/templates/tags", body: { name: "kept", tags: ["gone"] } };
      }),
      400: call("/templates/tags", { name: "kept", tags: ["default"] }),
      403: call("/templates/tags", { name: "base", tags: ["v1"] }),
      404: call("/templates/tags", { name: "kept", tags: ["none"] }),
    },
  };
}
