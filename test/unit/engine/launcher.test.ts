import { expect, test } from "vitest";
import { launcherCommand } from "../../../src/engine/oci/launcher.ts";

test("the steps follow the program as plain arguments", () => {
  const [file, option, program, ...args] = launcherCommand([
    ["chdir", "/a folder; rm -rf /"],
    ["listen", "envd.sock"],
    ["exec", "true", "-x"],
  ]);
  expect([file, option]).toEqual(["perl", "-e"]);
  expect(program).toContain("use strict;");
  expect(args).toEqual([
    "--",
    process.arch,
    String(process.pid),
    "chdir",
    "/a folder; rm -rf /",
    "listen",
    "envd.sock",
    "exec",
    "true",
    "-x",
  ]);
});

test("a list of steps without an end is our own fault", () => {
  expect(() => launcherCommand([["isolate"]])).toThrow("the last step ends the launcher");
});
