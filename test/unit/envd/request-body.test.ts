/** How long the daemon waits for the body of an upload, and for its own work behind it. */

import { createServer, request as sendRequest } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openRequestBody } from "../../../src/envd/files/request-body.ts";
import { listenOnLoopback } from "../../support/loopback.ts";

/** The client is in this process, which may stand for a moment on a busy machine. */
const IDLE_MS = 1_000;
/** A file that takes several times as long to be put into its place. */
const WORK_MS = 2_500;

/** Sends a whole body; the text of the reply. */
async function upload(port: number, coding: string, body: Buffer): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = { "content-encoding": coding };
  const call = sendRequest({ port, host: "127.0.0.1", method: "POST", headers, agent: false });
  call.on("error", reject);
  call.on("response", (reply) => void text(reply).then(resolve, reject));
  call.end(body);
  return promise;
}

test.for([
  { coding: "identity", body: Buffer.from("content") },
  { coding: "gzip", body: gzipSync("content") },
])("a client that has sent all of its $coding body is waited for", async ({ coding, body }) => {
  await using server = createServer((request, response) => {
    void (async () => {
      using content = openRequestBody({ request, response }, IDLE_MS);
      let seen = "";
      for await (const chunk of { [Symbol.asyncIterator]: () => content.chunks }) seen += chunk;
      await delay(WORK_MS);
      response.end(seen);
    })();
  });
  expect(await upload(await listenOnLoopback(server), coding, body)).toBe("content");
});

test.for([
  { coding: "identity", body: Buffer.alloc(1_000_000) },
  // All of it fits into the buffers before the decompression.
  { coding: "gzip", body: gzipSync(Buffer.alloc(4_000_000)) },
])("a body in $coding that the disk is slow to take is waited for", async ({ coding, body }) => {
  await using server = createServer((request, response) => {
    void (async () => {
      using content = openRequestBody({ request, response }, IDLE_MS);
      let size = 0;
      for await (const chunk of { [Symbol.asyncIterator]: () => content.chunks }) {
        if (size === 0) await delay(WORK_MS);
        size += chunk.length;
      }
      response.end(String(size));
    })().catch((error: unknown) => response.end(String(error)));
  });
  expect(await upload(await listenOnLoopback(server), coding, body)).toBe(
    coding === "gzip" ? "4000000" : "1000000",
  );
});

test("a client that sends nothing more before the end of its body is cut off", async () => {
  await using server = createServer((request, response) => {
    void (async () => {
      using content = openRequestBody({ request, response }, IDLE_MS);
      await content.chunks.next();
      await content.chunks.next().catch(() => undefined);
    })();
  });
  const port = await listenOnLoopback(server);
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const headers = { "content-length": "100" };
  const call = sendRequest({ port, host: "127.0.0.1", method: "POST", headers, agent: false });
  call.on("error", resolve);
  call.write("a part");
  expect(await promise).toMatchObject({ code: "ECONNRESET" });
});
