import { join } from "node:path";
import { expect, test } from "vitest";
import { launcherCommand } from "../../../src/engine/host/launcher.ts";

test("the steps follow the program as plain arguments", () => {
  const command = launcherCommand("/a/directory", [
    ["chdir", "/a folder; rm -rf /"],
    ["listen", "envd.sock"],
    ["exec", "true", "-x"],
  ]);
  expect(command).toEqual([
    "perl",
    join("/a/directory", "launcher.pl"),
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
  expect(() => launcherCommand("/a/directory", [["isolate"]])).toThrow(
    "the last step ends the launcher",
  );
});
