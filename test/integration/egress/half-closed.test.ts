/** Clients of the name server that end their side of a connection behind their questions. */

import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { startNameServer } from "../../../src/egress/name-server.ts";
import { createPolicies } from "../../../src/egress/policies.ts";
import { findFreePort } from "../../support/loopback.ts";

const QUESTION = "\0\x1c\0\x01\x01\0\0\x01\0\0\0\0\0\0\x05other\x04test\0\0\x01\0\x01";
const ADDRESS_BYTES = 16;
const now = () => 0;
/** It takes a turn, in which the end of the client comes. */
const resolver = {
  async lookup() {
    await nextTurn();
    return { outcome: "found", addresses: ["192.0.2.1"], untilMs: 1_000 } as const;
  },
};

test("a client that has ended its side gets all replies", async () => {
  const policies = createPolicies();
  policies.replace("127.0.0.1", ["*"]);
  const port = await findFreePort();
  using _ = await startNameServer({ address: "127.0.0.1", port, policies, resolver, now });
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  client.end(QUESTION.repeat(3), "latin1");
  const replies = await buffer(client);
  expect(replies.length).toBe(3 * (QUESTION.length + ADDRESS_BYTES));
});
