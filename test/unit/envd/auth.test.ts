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
  expect(isAdmitted(SECURED, { method, path, token, isFromInside: false })).toBe(isOpen);
});

function admit(method: string, path: string, token = ""): boolean {
  return isAdmitted(SECURED, { method, path, token, isFromInside: true });
}

test("the variables are open to programs of the sandbox, and nothing else is", () => {
  expect(admit("GET", "/envs")).toBe(true);
  expect(admit("POST", "/envs")).toBe(false);
  expect(admit("GET", "/envs/")).toBe(false);
  expect(admit("GET", "/metrics")).toBe(false);
  expect(admit("GET", "/metrics", "secret")).toBe(true);
});

test("an open sandbox admits everyone", () => {
  const open = { ...SECURED, accessToken: undefined };
  expect(
    isAdmitted(open, { isFromInside: true, method: "GET", path: "/metrics", token: "any" }),
  ).toBe(true);
});
