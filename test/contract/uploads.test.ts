/** Uploads that their client ends: they are no failure of the service, and leave nothing. */

import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { readContent } from "../../src/control/read-content.ts";
import { takeUpload } from "../../src/control/uploads.ts";
import { createCopyLedger } from "../../src/sandboxes/disks/disk-space.ts";
import { openUploads } from "../../src/sandboxes/template-builds/uploads.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const HASH = "ab";

interface Upload {
  readonly request: IncomingMessage;
  readonly signal: AbortSignal;
}

/** Sends half of a body and leaves, or stays; what `take` makes of the request. */
async function sendHalf<T>(take: (upload: Upload) => Promise<T>, leaves: boolean) {
  const { promise, resolve } = Promise.withResolvers<T>();
  const gone = new AbortController();
  const server = createServer((request, response) => {
    response.once("close", () => gone.abort());
    void take({ request, signal: gone.signal }).then(resolve);
  });
  const client = connect(await listenOnLoopback(server), "127.0.0.1");
  client.on("error", () => undefined);
  try {
    client.write("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf-");
    await once(server, "request");
    if (leaves) client.destroy();
    return await promise;
  } finally {
    client.destroy();
    server.close();
  }
}

test("an upload that its client cancels is answered as canceled and leaves no file", async () => {
  await using folder = await makeTempFolder();
  const copies = createCopyLedger();
  const options = { owner: "own", key: "ab".repeat(32), copies, now: Date.now };
  const uploads = await openUploads({ directory: folder.path, ...options });
  const token = uploads.sign("a", HASH);
  const outcome = await sendHalf((upload) => takeUpload(uploads, upload, token), true);
  expect(outcome.reply).toMatchObject({
    status: 499,
    body: { code: 499, message: "request ended before its body" },
  });
  expect(await readdir(folder.path)).toEqual([]);
  await uploads.receive(token, "1", { body: Readable.from(["x"]) });
  expect(await uploads.find("a", HASH)).toBeDefined();
});

async function read({ request }: Upload): Promise<unknown> {
  return buffer(Readable.from(readContent(request, 100))).then(
    () => "whole",
    (error: unknown) => error,
  );
}

test("a client that pauses for too long is taken for one that left", async () => {
  expect(await sendHalf(read, false)).toMatchObject({ code: "canceled" });
});

test("an upload whose client leaves while it waits for its turn is canceled", async () => {
  await using folder = await makeTempFolder();
  const copies = createCopyLedger();
  const options = { owner: "own", key: "ab".repeat(32), copies, now: Date.now };
  const uploads = await openUploads({ directory: folder.path, ...options });
  const busy = Array.from({ length: 16 }, () => new PassThrough());
  const sent = busy.map((body, index) =>
    uploads.receive(uploads.sign("a", `b${index}`), "1", { body }),
  );
  const token = uploads.sign("a", HASH);
  const outcome = await sendHalf((upload) => takeUpload(uploads, upload, token), true);
  expect(outcome.reply).toMatchObject({ status: 499 });
  for (const body of busy) body.end("x");
  await Promise.all(sent);
  expect(await uploads.find("a", HASH)).toBeUndefined();
});
