/** The program as process 1 of a container, where the kernel gives it what others leave. */

import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { PROGRAM } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const ALONE = ["-pf", "--mount-proc", "--kill-child"];
const REMEDY = "docker run --init";
const BOUND = { encoding: "utf8", timeout: 50_000 } as const;

test("doctor and serve tell of processes that nothing collects, and what does", async () => {
  await using folder = await makeTempFolder();
  const run = (command: string) => {
    const program = `exec "$@" ${command} --home "${folder.path}"`;
    const words = [...ALONE, "sh", "-c", program, "sh", process.execPath, PROGRAM];
    return spawnSync("unshare", words, BOUND);
  };
  const row = "warning  first process: process 1 collects no processes of ended sandboxes";
  expect(run("doctor").stdout).toContain(`\n${row} → ${REMEDY}`);
  // Without a template it ends at once.
  expect(run("serve --port 0 --build-base off").stderr).toContain(REMEDY);
});
