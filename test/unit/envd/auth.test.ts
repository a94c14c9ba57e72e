/** Tokens and the routes that do without. */

import { expect, test } from "vitest";
import { isAdmitted } from "../../../src/envd/auth.ts";

const SECURED = {
  accessToken: "secret",
  envVars: new Map<string, string>(),
  defaultUser: "root",
  defaultWorkdir: undefined,
};

test.for([
  ["GET", "/health", "", true],
  ["GET", "/files", "", true],
  ["POST", "/files", "", true],
  ["GET", "/files/", "", false],
  ["GET", "//files", "", false],
  ["POST", "/health", "", false],
  ["POST", "/files/compose", "", false],
  ["GET", "/metrics", "", false],
  ["GET", "/envs", "", false],
  ["POST", "/process.Process/List", "", false],
  ["POST", "/process.Process/List", "wrong", false],
  ["POST", "/process.Process/List", "secret, secret", false],
  ["POST", "/process.Process/List", "secret", true],
] as const)("%s %s with token %j", ([method, path, token, isOpen]) => {
  expect(isAdmitted(SECURED, { method, path, token })).toBe(isOpen);
});

test("an open sandbox admits everyone", () => {
  const open = { ...SECURED, accessToken: undefined };
  expect(isAdmitted(open, { method: "GET", path: "/metrics", token: "any" })).toBe(true);
});
