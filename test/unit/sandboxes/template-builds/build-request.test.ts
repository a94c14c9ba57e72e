/** The names of variables that a build may set. */

import { expect, test } from "vitest";
import { checkPlan } from "../../../../src/sandboxes/template-builds/build-request.ts";

function check(name: string): void {
  const steps = [{ type: "ENV", args: ["A", "1", name, "2"], force: false }] as const;
  const from = { kind: "template", reference: "base" } as const;
  const commands = { startCommand: undefined, readyCommand: undefined };
  checkPlan({ from, steps, force: false, ...commands });
}

test.for(["B", "_", "constructor", "A".repeat(256)])("%s is the name of a variable", (name) => {
  expect(() => check(name)).not.toThrow();
});

test.for(["", "1A", "A-B", "A=B", "A ", "é", "__proto__", "A".repeat(257)])(
  "%o is no name of a variable",
  (name) => {
    expect(() => check(name)).toThrow(/^step 1 \(ENV\): .* is no variable's name$/);
  },
);
