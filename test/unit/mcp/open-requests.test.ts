/** A request that has the id of an earlier one, which is over, is another request. */

import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { NodeStreamableHTTPServerTransport } from "@modelcontextprotocol/node";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import {
  hold,
  noteDelivered,
  notePassedOn,
  repeatsId,
} from "../../../src/mcp/http/open-requests.ts";
import type { Session } from "../../../src/mcp/http/sessions.ts";

const CALL = { jsonrpc: "2.0", id: "7", method: "ping" };
const CANCEL = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "7" } };

function openSession() {
  const closed: unknown[] = [];
  const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: () => "one" });
  Object.assign(transport, {
    closeSSEStream: (id: unknown) => void closed.push(id),
    send: async () => undefined,
  });
  const shared = { principal: "local", transport, usedAtMs: 0, openRequests: 0 };
  const session: Session = { ...shared, openIds: new Map() };
  return { session, closed };
}

/** The transport gets a call. */
function begin(session: Session, isLeft = false) {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  Object.defineProperty(response, "closed", { value: isLeft });
  const settle = hold(session, { response, body: CALL, clock: createSystemClock() });
  return { response, settle };
}

function deliver(session: Session): void {
  notePassedOn(session, CALL);
  noteDelivered(session, CALL);
}

test("a cancellation ends the call with its id", async () => {
  const { session, closed } = openSession();
  begin(session);
  deliver(session);
  noteDelivered(session, CANCEL);
  await nextTurn();
  expect(closed).toEqual(["7"]);
});

test("a cancellation that came before its call ends nothing", async () => {
  const { session, closed } = openSession();
  begin(session);
  noteDelivered(session, CANCEL);
  // The library has looked for the call, and found none.
  for (let microtask = 0; microtask < 10; microtask += 1) await Promise.resolve();
  deliver(session);
  await nextTurn();
  expect([closed, repeatsId(session, CALL)]).toEqual([[], true]);
});

test("a cancellation ends a call that is delivered right behind it", async () => {
  const { session, closed } = openSession();
  begin(session);
  noteDelivered(session, CANCEL);
  deliver(session);
  await nextTurn();
  expect(closed).toEqual(["7"]);
});

test("a cancellation that comes after the reply ends no call that repeats the id", async () => {
  const { session, closed } = openSession();
  begin(session);
  deliver(session);
  session.openIds.delete("7");
  noteDelivered(session, CANCEL);
  begin(session);
  deliver(session);
  await nextTurn();
  expect(closed).toEqual([]);
});

test("the end of a response does not free the id of a call that repeats it", () => {
  const { session } = openSession();
  const { response: first } = begin(session);
  deliver(session);
  session.openIds.delete("7");
  begin(session);
  first.emit("close");
  expect(repeatsId(session, CALL)).toBe(true);
});

test.for(["before", "after"])(
  "a call whose host leaves %s it is counted keeps its id until it is answered",
  (when) => {
    const { session } = openSession();
    const { response, settle } = begin(session, when === "before");
    if (when === "after") response.emit("close");
    // The transport passes the call on all the same.
    deliver(session);
    settle();
    expect(repeatsId(session, CALL)).toBe(true);
    expect(session.openRequests).toBe(0);
  },
);

test("a call that the transport refuses frees its id", () => {
  const { session } = openSession();
  begin(session).settle();
  expect(repeatsId(session, CALL)).toBe(false);
  begin(session).response.end().emit("close");
  expect(repeatsId(session, CALL)).toBe(false);
});
