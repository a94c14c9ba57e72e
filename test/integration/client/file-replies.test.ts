/** Replies to a read of a file that are those of a proxy, and those that a daemon sends. */

import { Agent } from "undici";
import { expect, test } from "vitest";
import { createEnvd } from "../../../src/client/envd.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { OPEN_ACCESS } from "../../support/control/access-source.ts";
import { startRecorder } from "../../support/network/recorder.ts";

const { signal } = new AbortController();

interface FileReply {
  readonly name: string;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

async function read({ status, headers = {}, body = "" }: FileReply, offset = 0) {
  await using recorder = await startRecorder((_, response) => {
    response.writeHead(status, headers).end(body);
  });
  const dispatcher = new Agent();
  try {
    const { files } = createEnvd({
      connection: { dispatcher, clock: createSystemClock() },
      baseUrl: recorder.url,
      source: OPEN_ACCESS,
      isOwnDaemon: false,
    });
    return await files.read("a.txt", { offset, limit: 100 }, { signal });
  } finally {
    await dispatcher.close();
  }
}

const HTML = { "content-type": "text/html; charset=utf-8" };
const JSON_TYPE = { "content-type": "application/json" };

test.for<FileReply>([
  { name: "200 with nothing", status: 200 },
  { name: "200 with a length of 0", status: 200, headers: { "content-length": "0" } },
  { name: "200 with a page", status: 200, headers: HTML, body: "<html>Log in</html>" },
  {
    name: "200 with an error",
    status: 200,
    headers: JSON_TYPE,
    body: '{"code":502,"message":"no upstream"}',
  },
  { name: "202 with nothing", status: 202 },
  { name: "204", status: 204 },
  { name: "204 with a header of files", status: 204, headers: { "accept-ranges": "bytes" } },
  { name: "206 of no range", status: 206, body: "x" },
  { name: "416 of no range", status: 416 },
  { name: "416 for a byte of the file", status: 416, headers: { "content-range": "bytes */5" } },
])("$name is no file", async (reply) => {
  await expect(read(reply)).rejects.toMatchObject({
    code: "internal",
    message: expect.stringContaining("read a.txt: unexpected reply: "),
  });
});

test.for<FileReply>([
  {
    name: "a daemon that names the file",
    status: 200,
    headers: { "content-disposition": "inline; filename=a.txt" },
  },
  {
    name: "an older daemon",
    status: 200,
    headers: { "accept-ranges": "bytes", "content-length": "0" },
  },
  {
    name: "a proxy that takes ranges apart",
    status: 200,
    headers: { "last-modified": "Thu, 01 Jan 1970 00:00:00 GMT" },
  },
  {
    name: "a daemon that knows no empty part",
    status: 416,
    headers: { "content-range": "bytes */0" },
  },
])("an empty file of $name is empty", async (reply) => {
  expect((await read(reply)).bytes).toHaveLength(0);
});

test("a file that is a page or an error is read as it is", async () => {
  const headers = { ...HTML, "accept-ranges": "bytes" };
  for (const body of ["<html></html>", '{"code":502,"message":"no upstream"}']) {
    const slice = await read({ name: "", status: 200, headers, body });
    expect(slice.bytes.toString()).toBe(body);
  }
});

test("text of a service without the headers of a file is read", async () => {
  const slice = await read({ name: "", status: 200, headers: HTML, body: "plain text" }, 6);
  expect(slice.bytes.toString()).toBe("text");
});

test("a read beyond the end tells the size", async () => {
  const headers = { "content-range": "bytes */5" };
  const slice = await read({ name: "", status: 416, headers }, 5);
  expect([slice.bytes.length, slice.sizeBytes]).toEqual([0, 5]);
});
