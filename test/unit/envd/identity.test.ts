/** The files that name a sandbox, in a folder that the sandbox itself may have spoiled. */

import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeIdentity } from "../../../src/envd/identity.ts";
import { createDaemonLog } from "../../../src/envd/log.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const VARIABLES = new Map([
  ["E2B_SANDBOX", "true"],
  ["E2B_SANDBOX_ID", "i1"],
  ["E2B_TEMPLATE_ID", "t1"],
  ["SECRET", "not told"],
]);

test("the values are written anew, through nothing that was left there", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "run/e2b");
  const elsewhere = join(folder.path, "elsewhere");
  await mkdir(join(directory, ".E2B_SANDBOX/in-the-way"), { recursive: true });
  await writeFile(elsewhere, "untouched");
  await symlink(elsewhere, join(directory, ".E2B_SANDBOX_ID"));
  await writeIdentity({ directory, variables: VARIABLES, log: createDaemonLog() });
  const names = [".E2B_SANDBOX", ".E2B_SANDBOX_ID", ".E2B_TEMPLATE_ID"];
  const texts = await Promise.all(
    names.map(async (name) => readFile(join(directory, name), "utf8")),
  );
  expect([...texts, await readFile(elsewhere, "utf8")]).toEqual(["true", "i1", "t1", "untouched"]);
});

test("all variables are for root alone, also where something was left in their place", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "e2b");
  const file = join(directory, ".variables.json");
  await mkdir(directory);
  await writeFile(file, "readable by all", { mode: 0o644 });
  await writeIdentity({ directory, variables: VARIABLES, log: createDaemonLog() });
  expect(JSON.parse(await readFile(file, "utf8"))).toEqual(Object.fromEntries(VARIABLES));
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test("a folder that cannot be made is a line in the log, not a fault", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "file/e2b");
  await writeFile(join(folder.path, "file"), "");
  const log = createDaemonLog();
  await writeIdentity({ directory, variables: VARIABLES, log });
  const { text } = await log.after(0, AbortSignal.timeout(1000));
  expect(JSON.parse(text.replace(/^1 /, ""))).toMatchObject({
    level: "warn",
    message: "identity files not written",
  });
});
