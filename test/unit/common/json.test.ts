/** What JSON may cost is known before it is parsed. */

import { expect, test } from "vitest";
import { createJsonGauge, parseJson } from "../../../src/common/json.ts";

const TOO_DEEP = { code: "invalid_argument" };
const OTHER = { code: "invalid_argument", message: "JSON is not in UTF-8" };
const TOO_RICH = { code: "resource_exhausted" };

test.for([
  { name: "a flat object", text: '{"a":[1,2,{"b":null}],"c":"d"}' },
  { name: "brackets and commas in a string", text: JSON.stringify("[{,".repeat(100_000)) },
  { name: "quotes and backslashes in a string", text: JSON.stringify('\\"[\\\\'.repeat(50_000)) },
  { name: "64 levels", text: `${"[".repeat(64)}${"]".repeat(64)}` },
])("$name is parsed", ({ text }) => {
  expect(parseJson(Buffer.from(text))).toEqual(JSON.parse(text));
});

test.for([
  { name: "65 levels", text: `${"[".repeat(65)}${"]".repeat(65)}`, fault: TOO_DEEP },
  { name: "many values", text: `[${"1,".repeat(40_000)}1]`, fault: TOO_RICH },
  { name: "many empty objects", text: `[${"{},".repeat(20_000)}{}]`, fault: TOO_RICH },
  { name: "bytes of another encoding", text: Buffer.from('"größe"', "latin1"), fault: OTHER },
  {
    name: "levels after a string that ends in backslashes",
    text: `["\\\\",${"[".repeat(70)}`,
    fault: TOO_DEEP,
  },
])("$name are refused", ({ text, fault }) => {
  expect(() => parseJson(Buffer.from(text))).toThrow(expect.objectContaining(fault));
});

test("text that is no JSON is told by the parser", () => {
  expect(() => parseJson(Buffer.from("}}}]"))).toThrow(SyntaxError);
});

test("a text may come in pieces", () => {
  const gauge = createJsonGauge();
  gauge(Buffer.from('["\\'));
  gauge(Buffer.from(`"${"[".repeat(100)}`));
  gauge(Buffer.from('",'));
  expect(() => gauge(Buffer.from("[".repeat(64)))).toThrow(expect.objectContaining(TOO_DEEP));
});

test.for([1, 63, 64, 65, 200])(
  "a string of %i bytes is measured whole, also in pieces",
  (length) => {
    const text = Buffer.from(`[{"x":"${"x".repeat(length)}"},"\\"]"]`);
    const judge = (maxStringBytes: number, cut: number) => () => {
      const gauge = createJsonGauge({ maxStringBytes });
      for (const piece of [text.subarray(0, cut), text.subarray(cut)]) gauge(piece);
    };
    for (let cut = 0; cut <= text.length; cut += 1) {
      expect(judge(length, cut)).not.toThrow();
      expect(judge(length - 1, cut)).toThrow(`more than ${length - 1} bytes`);
    }
  },
);
