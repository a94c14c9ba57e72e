/** An engine that proves less than `--require-isolation` is refused, whatever it reports. */

import { expect, test } from "vitest";
import { probeEngine } from "../../../src/commands/service/engine.ts";
import type { Engine, IsolationLevel } from "../../../src/engine/engine.ts";
import { createBareEngine } from "../../support/engine/bare-engine.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

/** It is usable by its own word, and isolates nothing. */
const engine = createBareEngine({ command: ["false"], perlDirectory: PERL_DIRECTORY });

function engineOf(level: IsolationLevel): Engine {
  return { ...engine, probe: async () => ({ ...(await engine.probe()), level }) };
}

test("an engine without isolation is not usable, and the check says why", async () => {
  expect(await probeEngine(engine, { requireIsolation: "container" })).toEqual({
    runtime: "bare",
    level: "none",
    isUsable: false,
    checks: [
      {
        name: "isolation",
        outcome: "missing",
        detail: "none is weaker than the required container",
      },
    ],
  });
});

test.for([
  { level: "container", required: "userns-container", isUsable: false },
  { level: "userns-container", required: "gvisor", isUsable: false },
  { level: "container", required: "container", isUsable: true },
  { level: "gvisor", required: "userns-container", isUsable: true },
] as const)("$level where $required is required: $isUsable", async (row) => {
  const wanted = { requireIsolation: row.required };
  expect(await probeEngine(engineOf(row.level), wanted)).toMatchObject({ isUsable: row.isUsable });
});
