/** `npm run generate` leaves a built program that has what it wrote, and no file of its own beside it. */

import { expect, test } from "vitest";
import packageJson from "../../../package.json" with { type: "json" };

const WRITTEN = "src/mcp/recorded-opening.json";

test("the last step of a generation builds anew, after all that the program contains is written", () => {
  const steps = packageJson.scripts.generate.split(" && ");
  expect(steps.findLastIndex((step) => step.includes(WRITTEN))).toBeGreaterThan(0);
  expect(steps.at(-1)).toBe("npm run build");
});
