/** The guardian of a service that does not find a container again which an earlier process made. */

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readStartTicks } from "../../../src/engine/host/process-stat.ts";
import { createGuards } from "../../../src/engine/oci/guardian.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const HOST = { unified: undefined, legacy: [], hasSwapLimit: false };

test("a container that cannot be adopted now is guarded until it is removed", async () => {
  await using folder = await makeTempFolder();
  const program = join(folder.path, "guardian.sh");
  // As the real one, it ends with its input.
  await writeFile(program, "while read -r word; do :; done\n");
  const guards = createGuards(program);
  const options = { directory: folder.path, rule: "leave" } as const;
  await using _ = await guards.start(HOST, options);
  const fault = new Error("no runtime");
  const adopting = guards.adopt("i0", async () => Promise.reject(fault));
  await expect(adopting).rejects.toBe(fault);
  const [pid = "", ticks = ""] = (await readFile(join(folder.path, "guardian"), "utf8"))
    .trim()
    .split(" ");
  const lives = () => readStartTicks(Number(pid)) === ticks;
  // One that was told to end has done so by then.
  await expect.poll(() => readFile(`/proc/${pid}/cmdline`, "utf8")).toContain("guardian.sh");
  expect(lives()).toBe(true);
  guards.release("i0");
  await expect.poll(lives).toBe(false);
});
