/** Which process is told that it collects no others. */

import { expect, test } from "vitest";
import { checkFirstProcess, firstProcessNote } from "../../../src/commands/first-process.ts";

test("process 1 alone", () => {
  expect(checkFirstProcess(1)).toMatchObject([{ name: "first process", outcome: "warning" }]);
  expect(firstProcessNote(1)).toContain("docker run --init");
  expect({ check: checkFirstProcess(2), note: firstProcessNote(2) }).toEqual({ check: [] });
});
