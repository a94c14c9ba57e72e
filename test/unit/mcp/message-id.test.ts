/** Ids of messages: what a reply repeats is what the host wrote. */

import { expect, test, vi } from "vitest";
import { createIdFinder, findId, idOf } from "../../../src/mcp/messages/message-id.ts";
import { createRandom, printedSeed } from "../../support/random.ts";

test.for([
  { written: "7", id: 7 },
  { written: "-1.5", id: -1.5 },
  { written: "9007199254740991", id: 9_007_199_254_740_991 },
  { written: "9007199254740993", id: undefined },
  { written: "-1764203000000000000", id: undefined },
  { written: "1e400", id: undefined },
  { written: '"9007199254740993"', id: "9007199254740993" },
  { written: "null", id: undefined },
])("$written is $id", ({ written, id }) => {
  const message = `{"jsonrpc":"2.0","id":${written},"method":"ping"}`;
  expect([idOf(JSON.parse(message)), findId(Buffer.from(message))]).toEqual([id, id]);
});

const IDS = ['"id":7', '"\\u0069d" : "a"', '"i\\u0064":{"id":1}', '\n"id"\t: -3 ', '"idx":"id"'];
const OTHERS = [
  '"a":"{\\"id\\":5,"',
  '"":[{"id":2},"}",["\\\\"]]',
  '"b":"\\\\\\\""',
  '"c":"\u00e9\ud83d\ude00"',
  `"d":"${"x".repeat(300)}"`,
  '"e":{"f":{},"g":[]}',
];
const ROUNDS = 500;
const MAX_OTHERS = 3;
const MAX_PIECE_BYTES = 40;

test("by chance: the id is that of the parsed message, in whatever pieces it comes", () => {
  const random = createRandom(printedSeed("ids of messages"));
  const others = () =>
    Array.from({ length: random.below(MAX_OTHERS + 1) }, () => random.pick(OTHERS));
  for (let round = 0; round < ROUNDS; round += 1) {
    const message = `{${[...others(), random.pick(IDS), ...others()].join(",")}}`;
    const finder = createIdFinder();
    const bytes = Buffer.from(message);
    for (let at = 0; at < bytes.length;) {
      const end = at + 1 + random.below(MAX_PIECE_BYTES);
      finder.add(bytes.subarray(at, end));
      at = end;
    }
    expect([message, finder.id]).toEqual([message, idOf(JSON.parse(message))]);
  }
});

test.for(["1,", '"i":1,', '"id":,', '"\\x":1,', "{},", '"",'])(
  "a million bytes of %s are not parsed member by member",
  (member) => {
    const message = Buffer.from(`{"id":7,${member.repeat(1_000_000 / member.length)}`);
    using parse = vi.spyOn(JSON, "parse");
    expect(findId(message)).toBe(7);
    expect(parse.mock.calls.length).toBeLessThan(100);
  },
);
