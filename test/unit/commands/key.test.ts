/** Keys by team: which of several keys a name means, and what a name may be. */

import { expect, test } from "vitest";
import { findKey, makeKey } from "../../../src/sandboxes/keys.ts";
import type { KeyRecord } from "../../../src/store/store.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function makeRecord(keyId: string, name: string, team = "local"): KeyRecord {
  return { keyId, name, team, hash: keyId.repeat(8), mask: `e2b_${keyId}`, createdAtMs: 0 };
}

const RECORDS = [
  makeRecord("00000001", "same"),
  makeRecord("00000002", "same"),
  makeRecord("00000003", "same", "blue"),
  makeRecord("00000004", "00000001"),
  makeRecord("00000005", "theirs", "blue"),
];

test.for([
  { name: "same", team: "blue", id: "00000003" },
  { name: "00000001", team: undefined, id: "00000001" },
  { name: "00000002", team: "local", id: "00000002" },
  { name: "00000004", team: undefined, id: "00000004" },
  { name: "theirs", team: undefined, id: "00000005" },
])("$name in the team $team means $id", ({ name, team, id }) => {
  expect(findKey(RECORDS, name, team).keyId).toBe(id);
});

test.for([
  {
    name: "same",
    team: undefined,
    says: "same is the name of 3 keys: 00000001, 00000002, 00000003",
  },
  { name: "same", team: "local", says: "same is the name of 2 keys: 00000001, 00000002" },
  { name: "theirs", team: "local", says: "no key theirs in the team local" },
  { name: "00000003", team: "local", says: "no key 00000003 in the team local" },
  { name: "", team: undefined, says: 'no key ""' },
  { name: "\u001b[2J\n", team: undefined, says: String.raw`no key "\u001b[2J\n"` },
])("$name in the team $team is refused: $says", ({ name, team, says }) => {
  expect(() => findKey(RECORDS, name, team)).toThrow(says);
});

test.for([
  "",
  " ",
  "a ",
  " a",
  "a\nb",
  "a\u001b[2J",
  "a\u202Eb",
  "a\u200Bb",
  "\uD800",
  "a".repeat(129),
])("a key cannot be named %j", (name) => {
  expect(() => makeKey(createFakeClock(), { name })).toThrow("the name of the key cannot be used");
});

test.for(["a", "Ada's laptop", "鍵", "a  local  b", "a".repeat(128)])(
  "a key can be named %j",
  (name) => {
    expect(makeKey(createFakeClock(), { name }).record.name).toBe(name);
  },
);
