/** R16 The same of a create that takes from the pool, and of the first start of a home. */

import { expect, test } from "vitest";
import { errorText } from "../../../src/common/errors.ts";
import { tellCells } from "../../support/run/cells.ts";
import {
  chooseFaults,
  LIMIT_MS,
  noteCase,
  openFailer,
  tell,
  type Report,
} from "../../support/write-faults/fail-writes.ts";
import { whyNoFaultyHome } from "../../support/write-faults/faulty-home.ts";
import { startFirst } from "../../support/write-faults/first-start.ts";
import { POOLED_CREATE } from "../../support/write-faults/operations.ts";

/** Each needs a home of its own. */
const FIRST_STARTS = Number(process.env["FAULT_SOME"] ?? 40);
const lack = whyNoFaultyHome();

test.skipIf(lack !== "")(
  `R16 faults of single writes of a create from the pool ${lack}`,
  { timeout: LIMIT_MS },
  async (context) => {
    await using failer = openFailer(["--pool", "1"]);
    expect(await failer.failAll(POOLED_CREATE, context)).toEqual([]);
  },
);

test.skipIf(lack !== "")(
  `R16 faults of single writes of the first start of a home ${lack}`,
  { timeout: LIMIT_MS },
  async (context) => {
    const { writes, failure } = await startFirst();
    expect(failure).toBe("");
    const report: Report = { found: new Map(), counts: new Map(), hits: 0 };
    for (const plan of chooseFaults(writes, FIRST_STARTS)) {
      try {
        const { isHit, failure: told } = await startFirst(plan);
        noteCase(report, plan, { isHit, outcome: told === "" ? "started" : "told" });
        if (plan.kind === "short write" && told !== "") {
          report.found.set(told, JSON.stringify(plan));
        }
      } catch (error) {
        report.found.set(errorText(error), JSON.stringify(plan));
      }
    }
    tell("first start", { report, writes });
    expect([...report.found]).toEqual([]);
    tellCells(context, report.hits);
  },
);
