/** The base64 methods of byte arrays, as the RPC library calls them. */

import { expect, test } from "vitest";

// The library looks for the methods when it is loaded, so they have to be there before.
await import("../../../src/common/base64.ts");
const { base64Decode, base64Encode } = await import("@bufbuild/protobuf/wire");

const BYTES = Uint8Array.from([0xfb, 0xff, 0xfe, 0x00, 0x41]);

test.for([
  ["std", "+//+AEE="],
  ["std_raw", "+//+AEE"],
  ["url", "-__-AEE"],
] as const)("bytes in the %s form", ([form, text]) => {
  expect(base64Encode(BYTES.subarray(0), form)).toBe(text);
});

test("a part of a larger buffer is itself alone", () => {
  expect(base64Encode(BYTES.subarray(4))).toBe("QQ==");
});

test.for(["+//+AEE=", "+//+AEE", "-__-AEE", "+//+\nAEE="])("%j is read", (text) => {
  expect(base64Decode(text)).toEqual(BYTES);
});

test.for(["+//+A", "+//+A!=="])("%j is no base64", (text) => {
  expect(() => base64Decode(text)).toThrow("invalid base64 string");
});
