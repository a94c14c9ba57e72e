/** The base64 methods that the library gets: what they take and give is what it makes by itself. */

import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { expect, test } from "vitest";
import { setFromBase64, toBase64 } from "../../../src/rpc/base64.ts";
import { createRandom } from "../../support/random.ts";

const BYTES = Uint8Array.from([0xfb, 0xff, 0xfe, 0x00, 0x41]);
const FORMS = [
  { form: "std", options: {} },
  { form: "std_raw", options: { omitPadding: true } },
  { form: "url", options: { alphabet: "base64url", omitPadding: true } },
] as const;

test.for(FORMS)("bytes in the form $form", ({ form, options }) => {
  for (let length = 0; length <= BYTES.length; length += 1) {
    const bytes = BYTES.subarray(0, length);
    expect(toBase64.call(bytes, options)).toBe(base64Encode(bytes, form));
  }
});

test("the other alphabet is padded unless the options say otherwise", () => {
  expect(toBase64.call(BYTES, { alphabet: "base64url" })).toBe("-__-AEE=");
});

test("a part of a larger buffer is itself alone", () => {
  expect(toBase64.call(BYTES.subarray(4))).toBe("QQ==");
});

/** What is read into an array of the size that the library makes for such a text. */
function read(text: string): Uint8Array {
  const padding = /={1,2}$/.exec(text)?.[0].length ?? 0;
  const size = text.length - ((text.length + 3) >> 2) - (text.length % 4 === 0 ? padding : 0);
  const target = new Uint8Array(size);
  expect(setFromBase64.call(target, text)).toEqual({ read: text.length, written: size });
  return target;
}

test("padded base64 is read", () => {
  expect(["", "QQ==", "+//+AEE="].map((text) => read(text))).toEqual([
    Uint8Array.of(),
    Uint8Array.of(0x41),
    BYTES,
  ]);
});

test.for([
  "+//+AEE",
  "+//+\nAEE=",
  "+//+A",
  "+//+A!==",
  "AA=A",
  "A===",
  "AAAA====",
  "=AAA",
  "éAAA",
])("%j is left to the library", (text) => {
  expect(() => read(text)).toThrow("invalid base64");
});

test("what is read of any text is what the library reads", () => {
  const random = createRandom(24);
  const alphabet = "AZaz09+/-_=\n !é";
  let taken = 0;
  for (let round = 0; round < 5_000; round += 1) {
    const length = random.below(13);
    const text = Array.from({ length }, () => alphabet[random.below((round % 11) + 4)]).join("");
    try {
      expect([text, read(text)]).toEqual([text, base64Decode(text)]);
      taken += 1;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  expect(taken).toBeGreaterThan(500);
});
