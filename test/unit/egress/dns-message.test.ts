/** Questions for names and their replies, byte for byte. */

import { expect, test } from "vitest";
import { parseQuestion, REPLY_CODES, writeReply } from "../../../src/egress/dns-message.ts";
import { createRandom, mutate } from "../../support/random.ts";

const MUTATIONS = 3_000;
const HEADER = "1234 0100 0001 0000 0000 0000";
/** `a.test`, type A, class IN. */
const ASKED = "01 61 04 74657374 00 0001 0001";

function bytes(text: string): Buffer {
  return Buffer.from(text.replaceAll(" ", ""), "hex");
}

function ask(asked: string) {
  return parseQuestion(bytes(`${HEADER} ${asked}`));
}

test("a question is answered with an address record for each address", () => {
  const question = parseQuestion(bytes(`${HEADER} ${ASKED}`));
  expect(question).toMatchObject({ id: 0x1234, name: "a.test", asksAddress: true });
  const answer = { code: REPLY_CODES.ok, addresses: ["192.0.2.1", "192.0.2.255"], ttlSeconds: 60 };
  expect(question && writeReply(question, answer)).toEqual(
    bytes(
      `1234 8180 0001 0002 0000 0000 ${ASKED}
       c00c 0001 0001 0000003c 0004 c0000201
       c00c 0001 0001 0000003c 0004 c00002ff`.replaceAll(/\s/g, ""),
    ),
  );
});

test("other types and names that are none are told apart", () => {
  expect(ask("01 61 04 74657374 00 001c 0001")).toMatchObject({ asksAddress: false });
  // A label with a dot in it, one with a NUL, and the root.
  expect(ask("06 612e74657374 00 0001 0001")).toMatchObject({ name: undefined });
  expect(ask("02 6100 04 74657374 00 0001 0001")).toMatchObject({ name: undefined });
  expect(ask("00 0001 0001")).toMatchObject({ name: undefined });
});

test.for([
  "",
  "1234 0100 0001 0000 0000",
  `1234 8180 0001 0000 0000 0000 ${ASKED}`,
  `1234 2800 0001 0000 0000 0000 ${ASKED}`,
  `1234 0100 0000 0000 0000 0000 ${ASKED}`,
  `1234 0100 0002 0000 0000 0000 ${ASKED}`,
  `${HEADER} c00c 0001 0001`,
  `${HEADER} 01 61 04 746573`,
  `${HEADER} 01 61 00 0001`,
])("what is no question gets no reply: %j", (text) => {
  expect(parseQuestion(bytes(text))).toBeUndefined();
});

test("whatever is sent is no question or one with a plain name", () => {
  const question = bytes(`${HEADER} ${ASKED}`);
  for (let seed = 0; seed < MUTATIONS; seed += 1) {
    const name = parseQuestion(mutate(createRandom(seed), question))?.name ?? "none";
    expect(name).toMatch(/^[a-z0-9_.-]+$/);
  }
});
