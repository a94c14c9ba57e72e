/** Routes are found on the raw path, decoded segment by segment. */

import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { matchRoute } from "../../../src/control/match.ts";
import { ROUTES } from "../../../src/control/routes/index.ts";

function find(method: string, path: string) {
  const match = matchRoute(ROUTES, method, path);
  if (match instanceof SandboxError) return { code: match.code, message: match.message };
  return { path: match.route.path, params: match.params };
}

const unknown = {
  code: "not_found",
  message: "validation error: no matching operation was found",
};

test.for([
  { method: "POST", path: "/sandboxes", expected: { path: "/sandboxes", params: {} } },
  {
    method: "GET",
    path: "/sandboxes/iabc",
    expected: { path: "/sandboxes/{sandboxID}", params: { sandboxID: "iabc" } },
  },
  {
    method: "GET",
    path: "/sandboxes/metrics",
    expected: { path: "/sandboxes/metrics", params: {} },
  },
  {
    method: "DELETE",
    path: "/templates/local%2Fweb%3Adefault",
    expected: { path: "/templates/{templateID}", params: { templateID: "local/web:default" } },
  },
  {
    method: "GET",
    path: "/templates/aliases/base",
    expected: { path: "/templates/aliases/{alias}", params: { alias: "base" } },
  },
  { method: "DELETE", path: "/templates/local/web", expected: unknown },
  { method: "GET", path: "/sandboxes/", expected: unknown },
  { method: "GET", path: "/sandboxes/a/", expected: unknown },
  { method: "GET", path: "//sandboxes", expected: unknown },
  { method: "GET", path: "/Sandboxes", expected: unknown },
  { method: "GET", path: "/", expected: unknown },
  {
    method: "PUT",
    path: "/sandboxes",
    expected: { code: "invalid_argument", message: "validation error: method not allowed" },
  },
  {
    method: "GET",
    path: "/sandboxes/%zz",
    expected: { code: "invalid_argument", message: "validation error: path is not decodable" },
  },
])("$method $path", ({ method, path, expected }) => {
  expect(find(method, path)).toEqual(expected);
});

test("every route has a method and path of its own", () => {
  expect(ROUTES.length).toBeGreaterThan(20);
  expect(new Set(ROUTES.map(({ method, path }) => `${method} ${path}`)).size).toBe(ROUTES.length);
});
