/** Refusals that are sent while their requests are still coming, to clients that read after they have sent. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { discardRest, sendJson } from "../../../src/common/http.ts";
import { readContent } from "../../../src/control/read-content.ts";
import { notRunning, sendRefusal } from "../../../src/gateway/refusal.ts";
import { closeServer, listenOnLoopback } from "../../support/loopback.ts";

/** More than sockets hold. */
const BODY = Buffer.alloc(32 * 1024 ** 2);
const HEAD = `PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: ${BODY.length}\r\n\r\n`;

type Refuse = (request: IncomingMessage, response: ServerResponse) => void;

/** The first line of the answer; a connection that breaks under the request is an error. */
async function answerOf(refuse: Refuse): Promise<string> {
  const server = createServer(refuse);
  const client = connect(await listenOnLoopback(server), "127.0.0.1");
  try {
    client.write(HEAD);
    const { promise: sent, resolve, reject } = Promise.withResolvers<void>();
    client.once("error", reject);
    client.write(BODY, (error) => {
      if (error == null) resolve();
    });
    await sent;
    const [beginning] = await once(client, "data");
    return String(beginning).split("\r\n", 1)[0] ?? "";
  } finally {
    client.destroy();
    await closeServer(server);
  }
}

const refuseAtGateway: Refuse = (_, response) => sendRefusal(response, notRunning("i1"));

const refuseAfterPart: Refuse = (request, response) => {
  const body = Readable.from(readContent(request), { objectMode: false });
  body.once("data", () => {
    body.destroy();
    discardRest(request);
    sendJson(response, 507, { body: {} });
  });
};

test("a refusal of the gateway arrives", async () => {
  expect(await answerOf(refuseAtGateway)).toBe("HTTP/1.1 502 Bad Gateway");
});

test("a refusal after a part of the body arrives, whoever still reads that", async () => {
  expect(await answerOf(refuseAfterPart)).toBe("HTTP/1.1 507 Insufficient Storage");
});
