/** The metadata filter, as three encodings leave it after the first is removed. */

import { expect, test } from "vitest";
import { parseMetadataFilter } from "../../../src/control/routes/sandbox-lists.ts";

function parse(query: string): Record<string, string> {
  const filter = new URLSearchParams(query).get("metadata") ?? undefined;
  return Object.fromEntries(parseMetadataFilter(filter));
}

test.for([
  {
    query: "metadata=k%2525201%3Dv%252526%25253D1%26b%3Dc",
    expected: { "k 1": "v&=1", b: "c" },
  },
  { query: "metadata=a%252520b%3Dc%25252Fd%25252Ce", expected: { "a b": "c/d,e" } },
  { query: "metadata=user%3Dabc%26app%3Dprod", expected: { user: "abc", app: "prod" } },
  { query: "metadata=a%3Db%3Dc", expected: { a: "b=c" } },
  { query: "metadata=a", expected: { a: "" } },
  { query: "metadata=", expected: {} },
  { query: "", expected: {} },
])("$query", ({ query, expected }) => {
  expect(parse(query)).toEqual(expected);
});

test("what does not decode is refused", () => {
  expect(() => parse("metadata=a%3D%25zz")).toThrow(
    expect.objectContaining({ code: "invalid_argument" }),
  );
});
