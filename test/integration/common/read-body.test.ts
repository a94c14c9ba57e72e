/** A body that is too large is refused, and its connection stays fit for the next request. */

import { Agent, createServer, request } from "node:http";
import { expect, test } from "vitest";
import { errorText } from "../../../src/common/errors.ts";
import { readBody } from "../../../src/common/http.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

test("requests after a refused one are answered on the same connection", async () => {
  const server = createServer((incoming, response) => {
    readBody(incoming, 1_000).then(
      (body) => response.end(`${body.length} bytes`),
      (error: unknown) => response.end(errorText(error)),
    );
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const port = await listenOnLoopback(server);
  const send = async (sizeBytes: number) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const options = { agent, port, method: "POST", signal: AbortSignal.timeout(5_000) };
    const call = request(options, (reply) => {
      let text = "";
      reply.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      reply.once("end", () => resolve(text));
    });
    call.once("error", reject);
    call.end(Buffer.alloc(sizeBytes));
    return promise;
  };
  try {
    const refused = "body exceeds 1000 bytes";
    expect([await send(3_000_000), await send(60_000_000), await send(5)]).toEqual([
      refused,
      refused,
      "5 bytes",
    ]);
  } finally {
    agent.destroy();
    server.close();
  }
});
