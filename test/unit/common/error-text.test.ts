/** The text of an error is a sentence, whatever was thrown. */

import { expect, test } from "vitest";
import { errorText } from "../../../src/common/errors.ts";
import { z } from "../../../src/common/schema.ts";

function faultOf(schema: z.ZodType, value: unknown): string {
  return errorText(schema.safeParse(value).error);
}

test("what does not fit a schema is told by its first place", () => {
  const schema = z.object({ data: z.object({ a: z.array(z.string()) }), b: z.number() });
  expect(faultOf(schema, { data: { a: ["x", 5] } })).toBe(
    "not of the expected form at data.a.1: Invalid input: expected string, received number",
  );
  expect(faultOf(schema, undefined)).toBe(
    "not of the expected form: Invalid input: expected object, received undefined",
  );
});

test.for([
  { thrown: new Error("plain"), text: "plain" },
  { thrown: "a text", text: "a text" },
  { thrown: undefined, text: "undefined" },
  { thrown: Object.assign(new Error("own"), { issues: [] }), text: "own" },
])("$thrown → $text", ({ thrown, text }) => {
  expect(errorText(thrown)).toBe(text);
});
