/** Operations of the wire that this service does not offer: each answers so, with its name. */

import { SandboxError } from "../../common/errors.ts";
import { defineRoute, type Route } from "../route.ts";

/** Method, path, and what is not available. A last segment `*` takes any rest. */
const ROWS: readonly (readonly [Route["method"], string, string])[] = [
  ["POST", "/templates", "building a template"],
  ["POST", "/v2/templates", "building a template"],
  ["POST", "/v3/templates", "building a template"],
  ["POST", "/templates/{templateID}", "building a template"],
  ["GET", "/templates/{templateID}/files/{hash}", "building a template"],
  ["POST", "/templates/{templateID}/builds/{buildID}", "building a template"],
  ["POST", "/v2/templates/{templateID}/builds/{buildID}", "building a template"],
  ["GET", "/templates/{templateID}/builds/{buildID}/status", "building a template"],
  ["GET", "/templates/{templateID}/builds/{buildID}/logs", "building a template"],
  ["GET", "/secrets", "secrets"],
  ["POST", "/secrets", "secrets"],
  ["GET", "/secrets/{secretID}", "secrets"],
  ["PATCH", "/secrets/{secretID}", "secrets"],
  ["DELETE", "/secrets/{secretID}", "secrets"],
  ["GET", "/teams", "teams of a login"],
  ["GET", "/teams/*", "figures of a team"],
  ["GET", "/api-keys", "keys by request"],
  ["POST", "/api-keys", "keys by request"],
  ["PATCH", "/api-keys/{apiKeyID}", "keys by request"],
  ["DELETE", "/api-keys/{apiKeyID}", "keys by request"],
  ["POST", "/access-tokens", "access tokens of a login"],
  ["DELETE", "/access-tokens/{accessTokenID}", "access tokens of a login"],
  ["GET", "/admin/*", "administration by request"],
  ["POST", "/admin/*", "administration by request"],
  ["GET", "/nodes", "nodes of a cluster"],
  ["GET", "/nodes/{nodeID}", "nodes of a cluster"],
  ["POST", "/nodes/{nodeID}", "nodes of a cluster"],
  ["GET", "/events/*", "events of sandboxes"],
];

export const notOfferedRoutes: readonly Route[] = ROWS.map(([method, path, subject]) =>
  defineRoute({
    method,
    path,
    replies: {},
    faults: [501],
    async handle() {
      throw new SandboxError("unimplemented", `not available in this service: ${subject}`);
    },
  }),
);
