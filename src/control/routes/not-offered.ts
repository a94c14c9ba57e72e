/** Operations of the wire that this service does not offer: each answers so, with its name. */

import { SandboxError } from "../../common/errors.ts";
import { ignored } from "../parameters.ts";
import { defineRoute, type Route } from "../route.ts";

/** Method, path, and what is not available. A last segment `*` takes any rest. */
const ROWS: readonly (readonly [Route["method"], string, string])[] = [
  ["GET", "/v2/templates", "the second form of the list of templates"],
  ["PATCH", "/v2/templates/{templateID}", "publishing a template"],
  ["PATCH", "/templates/{templateID}", "publishing a template"],
  ["POST", "/templates", "building a template"],
  ["POST", "/v2/templates", "building a template"],
  ["POST", "/v3/templates", "building a template"],
  ["POST", "/templates/{templateID}", "building a template"],
  ["GET", "/templates/{templateID}/files/{hash}", "building a template"],
  ["POST", "/templates/{templateID}/builds/{buildID}", "building a template"],
  ["POST", "/v2/templates/{templateID}/builds/{buildID}", "building a template"],
  ["GET", "/templates/{templateID}/builds/{buildID}/status", "building a template"],
  ["GET", "/templates/{templateID}/builds/{buildID}/logs", "building a template"],
  ["POST", "/templates/tags", "tagging a template"],
  ["DELETE", "/templates/tags", "tagging a template"],
  ["GET", "/templates/{templateID}/tags", "tags of a template"],
  ["GET", "/volumecontent/{volumeID}/*", "content of volumes from outside a sandbox"],
  ["POST", "/volumecontent/{volumeID}/*", "content of volumes from outside a sandbox"],
  ["PUT", "/volumecontent/{volumeID}/*", "content of volumes from outside a sandbox"],
  ["PATCH", "/volumecontent/{volumeID}/*", "content of volumes from outside a sandbox"],
  ["DELETE", "/volumecontent/{volumeID}/*", "content of volumes from outside a sandbox"],
];

export const notOfferedRoutes: readonly Route[] = ROWS.map(([method, path, subject]) =>
  defineRoute({
    method,
    path,
    auth: "key",
    params: ignored,
    query: ignored,
    body: ignored,
    async handle() {
      throw new SandboxError("unimplemented", `not available in this service: ${subject}`);
    },
  }),
);
