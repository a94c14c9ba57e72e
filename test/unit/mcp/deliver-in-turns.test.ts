/** Requests of a batch that wait for their turn. */

import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import { expect, test } from "vitest";
import { deliverInTurns } from "../../../src/mcp/http/deliver-in-turns.ts";
import { hold, repeatsId } from "../../../src/mcp/http/open-requests.ts";
import type { Session } from "../../../src/mcp/http/sessions.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const clock = createFakeClock();
const BATCH = [1, 2].map((id) => ({ jsonrpc: "2.0", id, method: "ping" }));

test("the id of a request that waits stays taken when its host drops the stream", async () => {
  const session: Session = {
    principal: "a",
    transport: new NodeStreamableHTTPServerTransport({ sessionIdGenerator: () => "s1" }),
    usedAtMs: 0,
    openRequests: 0,
    openIds: new Map(),
  };
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const { promise: turn, resolve: pass } = Promise.withResolvers<void>();
  const delivered: unknown[] = [];
  const deliver = deliverInTurns(
    session,
    () => turn,
    (message: unknown) => void delivered.push(message),
  );
  const settle = hold(session, { response, body: BATCH, clock });
  deliver(BATCH[0]);
  response.emit("close");
  settle();
  const isTaken = BATCH.map((message) => repeatsId(session, message));
  expect([delivered, isTaken]).toEqual([[], [true, false]]);
  pass();
  await expect.poll(() => delivered).toEqual([BATCH[0]]);
});
