/** What a create is told where the template of the code interpreter was not built. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readBuildTime, recordBuildTime } from "../../../src/commands/templates/build-times.ts";
import { interpreterTemplate } from "../../../src/commands/templates/interpreter-build.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const COMMAND = "`sandbox-mcp template pull code-interpreter` builds it ";
const OTHERWISE = ", or start the service with --auto-templates on";

test.for([
  { times: {}, said: "(1.8 GB)" },
  {
    times: { base: 61_000 },
    said: "(about 122 s, by the time that base took on this machine; 1.8 GB)",
  },
  {
    times: { base: 61_000, "code-interpreter": 97_400 },
    said: "(its last build on this machine took 97 s; 1.8 GB)",
  },
  { times: { base: "soon" }, said: "(1.8 GB)" },
])("builds that took $times → $said", async ({ times, said }) => {
  await using home = await makeTempFolder();
  for (const [name, ms] of Object.entries(times)) {
    await writeFile(join(home.path, `build-time-${name}`), `${ms}\n`);
  }
  const template = interpreterTemplate(home.path, async () => undefined);
  const refused = template.prepare?.(new AbortController().signal, 0);
  await expect(refused).rejects.toMatchObject({
    code: "not_found",
    message: expect.stringContaining(`${COMMAND}${said}${OTHERWISE}`),
  });
});

test("a build that succeeds has its time kept, and one that fails has not", async () => {
  await using home = await makeTempFolder();
  const failing = recordBuildTime(home.path, "base", () => Promise.reject(new Error("no")));
  await expect(failing).rejects.toThrow("no");
  expect(await readBuildTime(home.path, "base")).toBeUndefined();
  await recordBuildTime(home.path, "base", async () => undefined);
  expect(await readBuildTime(home.path, "base")).toBeGreaterThan(0);
});
