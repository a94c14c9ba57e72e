/** What was compiled of the daemon is taken by its own node, under the flags of a sandbox. */

import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { initCommand } from "../../../src/engine/daemon/daemon-command.ts";
import { startOciHost } from "../../support/engine/oci-host.ts";

/** Says whether the engine took the code, and how much it is. */
const LOOK = `
const { readFileSync } = require("node:fs");
const { Script } = require("node:vm");
const source = readFileSync("daemon.cjs", "latin1");
const cachedData = readFileSync("daemon.compiled");
const wrapped = "(function (exports, require, module, __filename, __dirname) {" + source + "\\n})";
const script = new Script(wrapped, { filename: "daemon.cjs", cachedData });
console.log(JSON.stringify({ isRefused: script.cachedDataRejected, bytes: cachedData.length }));
`;

test("a daemon starts from compiled code that its node takes", async () => {
  await using host = await startOciHost("auto");
  await host.engine.probe();
  const [name = ""] = await readdir(join(host.home, "daemon"));
  const folder = join(host.home, "daemon", name);
  const line = initCommand("id").at(-2) ?? "";
  const flags = /\/node ((?:--\S+ )+)/.exec(line)?.[1]?.trim().split(" ") ?? [];
  expect(flags.length).toBeGreaterThan(0);
  const words = ["--library-path", join(folder, "lib"), join(folder, "node"), ...flags, "-e", LOOK];
  const { stdout } = await promisify(execFile)(join(folder, "loader"), words, { cwd: folder });
  const { isRefused, bytes } = JSON.parse(stdout);
  expect(isRefused).toBe(false);
  // What its loading alone compiles takes half of that.
  expect(bytes).toBeGreaterThan(500_000);
});
