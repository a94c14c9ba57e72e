/** The library takes the place of the recorded answers, with all that the host said before. */

import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { answersFor } from "../../../src/mcp/stdio/opening-answers.ts";
import { serveMcpStdio } from "../../../src/mcp/stdio/stdio.ts";
import { connect, INITIALIZE } from "../../support/mcp/stdio-connection.ts";

const INITIALIZED = { method: "notifications/initialized" };
const LIST = { id: 2, method: "tools/list" };
const PING = { id: 3, method: "ping" };

function lines(...messages: readonly object[]): string {
  return messages.map((each) => `${JSON.stringify({ jsonrpc: "2.0", ...each })}\n`).join("");
}

test("what comes in one piece with the opening is answered after it", async () => {
  await using connection = connect();
  connection.stdin.write(lines(INITIALIZE, INITIALIZED, LIST, PING, { ...LIST, id: 4 }));
  await connection.answer(4);
  expect(connection.messages.map(({ id }) => id)).toEqual([1, 2, 3, 4]);
  expect(connection.messages[3]?.["result"]).toEqual(connection.messages[1]?.["result"]);
});

test("an id of the opening can be used again", async () => {
  await using connection = connect();
  const again = { id: 1, method: "resources/templates/list" };
  connection.stdin.write(lines(INITIALIZE, INITIALIZED, { ...PING, id: 1 }, again, PING));
  await connection.answer(3);
  expect(connection.messages.map(({ id }) => id)).toEqual([1, 1, 1, 3]);
  expect(connection.messages[1]?.["result"]).toEqual({});
  expect(connection.messages[2]?.["result"]).toMatchObject({
    resourceTemplates: expect.any(Array),
  });
});

test.for([
  { revision: "2025-03-26", reply: [{ jsonrpc: "2.0", id: 3, result: {} }] },
  { revision: "2025-06-18", reply: { id: 3, error: { code: -32_600 } } },
])("the library knows the revision $revision by its batches", async ({ revision, reply }) => {
  await using connection = connect();
  const params = { ...INITIALIZE.params, protocolVersion: revision };
  connection.stdin.write(lines({ ...INITIALIZE, params }, INITIALIZED, LIST));
  await connection.answer(2);
  connection.stdin.write(`[${lines(PING).trim()}]\n`);
  const later = () => [...connection.batches, ...connection.messages.slice(2)];
  await expect.poll(later).toHaveLength(1);
  expect(later()).toMatchObject([reply]);
});

test("a message cut by the end of the opening is whole", async () => {
  await using connection = connect();
  const text = lines(INITIALIZE, INITIALIZED, LIST, { ...LIST, id: 4 });
  const cut = text.length - 10;
  connection.stdin.write(text.slice(0, cut));
  await connection.answer(2);
  connection.stdin.write(text.slice(cut));
  expect(await connection.answer(4)).toHaveProperty("result");
});

test("stdin that ends with the last message is heard to its end", async () => {
  await using connection = connect();
  connection.stdin.end(`${lines(INITIALIZE, INITIALIZED, LIST, PING)}{bad\n`);
  expect(await connection.ended).toBe("stdin closed");
  expect(connection.messages.map(({ id }) => id)).toEqual([1, 2, null, 3]);
});

/** A server whose library is counted and never comes. */
function serve(open: () => Promise<never>) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  stdout.resume();
  const stop = new AbortController();
  const ended = serveMcpStdio({
    open,
    answers: answersFor({ toolset: "core", isReadOnly: false }),
    protocol: "auto",
    stdin,
    stdout,
    signal: stop.signal,
    parentPid: () => 1,
  });
  return { stdin, stdout, stop, ended };
}

test("nothing is opened for a host that goes after the handshake", async () => {
  let opened = 0;
  const { stdin, ended } = serve(async () => {
    opened += 1;
    throw new Error("not here");
  });
  stdin.end(lines(INITIALIZE, INITIALIZED));
  expect(await ended).toBe("stdin closed");
  expect(opened).toBe(0);
});

test("what cannot be opened ends the connection by its error", async () => {
  const { stdin, ended } = serve(async () => {
    throw new Error("not here");
  });
  stdin.write(lines(INITIALIZE, LIST));
  await expect(ended).rejects.toThrow("not here");
});

test("a stop while the library is loaded ends the connection", async () => {
  const opening = Promise.withResolvers<never>();
  const { stdin, stop, ended } = serve(async () => {
    stop.abort();
    opening.reject(new Error("too late"));
    return opening.promise;
  });
  stdin.write(lines(INITIALIZE, LIST));
  expect(await ended).toBe("stopped");
});
