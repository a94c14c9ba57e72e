/** Ids of messages: what a reply repeats is what the host wrote. */

import { expect, test } from "vitest";
import { findId, idOf } from "../../../src/mcp/message-id.ts";

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
