/** Streams of a daemon as bytes: however they are cut, and whatever is wrong with them. */

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { create, toBinary } from "@bufbuild/protobuf";
import { Agent } from "undici";
import { expect, test } from "vitest";
import { createEventClient } from "../../../src/client/event-stream.ts";
import { fromRpcError } from "../../../src/client/rpc.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { StartResponseSchema, type ProcessEvent } from "../../../src/gen/process/process_pb.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { envelope } from "../../support/raw-call.ts";

const TYPE = "application/connect+proto";

function output(text: string): Buffer {
  const value = { output: { case: "stdout", value: Buffer.from(text) } } as const;
  const message = create(StartResponseSchema, { event: { event: { case: "data", value } } });
  return envelope(toBinary(StartResponseSchema, message));
}

const END = envelope("{}", { flags: 2 });

/** What a client makes of such a reply: the texts of its events, or the fault. */
async function read(answer: (response: ServerResponse) => void | Promise<void>) {
  const server = createServer((request, response) => {
    request.resume().once("end", () => void answer(response));
  });
  const port = await listenOnLoopback(server);
  const dispatcher = new Agent();
  const client = createEventClient({
    connection: { dispatcher, clock: createSystemClock() },
    baseUrl: `http://127.0.0.1:${port}`,
    headers: () => ({ "x-access-token": "secret-token" }),
    isBinary: true,
  });
  try {
    const { signal } = new AbortController();
    const texts: string[] = [];
    for await (const { event } of client.start({}, { signal, headers: {} })) {
      texts.push(textOf(event));
    }
    return texts;
  } catch (error) {
    const { code, message } = fromRpcError(error, "start");
    return { code, message };
  } finally {
    await dispatcher.destroy();
    server.closeAllConnections();
    server.close();
  }
}

function textOf(event: ProcessEvent | undefined): string {
  const known = event?.event;
  if (known?.case !== "data" || known.value.output.case !== "stdout") return "";
  return Buffer.from(known.value.output.value).toString("utf8");
}

function replyWith(...pieces: readonly Uint8Array[]) {
  return async (response: ServerResponse): Promise<void> => {
    response.writeHead(200, { "content-type": TYPE });
    for (const piece of pieces) {
      if (!response.write(piece)) await once(response, "drain");
      // Else they would come as one.
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };
}

test("messages are whole however their bytes are cut", async () => {
  const whole = Buffer.concat([output("one"), output(""), output("x".repeat(40_000)), END]);
  const single = [...whole.subarray(0, 40)].map((byte) => Buffer.of(byte));
  const texts = ["one", "", "x".repeat(40_000)];
  expect(await read(replyWith(whole))).toEqual(texts);
  expect(await read(replyWith(...single, whole.subarray(40)))).toEqual(texts);
});

test.for([
  { name: "no end", pieces: [output("a")], code: "unavailable" },
  { name: "half a message", pieces: [output("abc").subarray(0, 8)], code: "unavailable" },
  { name: "half a head", pieces: [output("abc").subarray(0, 3)], code: "unavailable" },
  { name: "a message after the end", pieces: [END, output("a")], code: "internal" },
  { name: "unknown flags", pieces: [envelope("a", { flags: 1 }), END], code: "internal" },
  { name: "no message", pieces: [envelope(Buffer.of(0xff)), END], code: "internal" },
  { name: "an end that is no JSON", pieces: [envelope("{", { flags: 2 })], code: "internal" },
  {
    name: "a length that nothing has",
    pieces: [Buffer.of(0, 0xff, 0xff, 0xff, 0xff)],
    code: "resource_exhausted",
  },
  {
    name: "an end with an error",
    pieces: [envelope('{"error":{"code":"not_found","message":"no such process"}}', { flags: 2 })],
    code: "not_found",
  },
])("$name is $code", async ({ pieces, code }) => {
  expect(await read(replyWith(...pieces))).toMatchObject({ code });
});

test("a refusal is told with its reason, without the token", async () => {
  const fault = await read((response) => {
    response.writeHead(502, { "content-type": "application/json" });
    response.end('{"code":502,"message":"no secret-token here"}');
  });
  expect(fault).toEqual({
    code: "unavailable",
    message: expect.stringMatching(/answered 502 "no (?!secret-token)/),
  });
});

test("the end of a stream is told with its reason, without the token", async () => {
  const said = '{"error":{"code":"not_found","message":"no secret-token here"}}';
  const fault = await read(replyWith(envelope(said, { flags: 2 })));
  expect(fault).toEqual({ code: "not_found", message: 'start: "no [redacted] here"' });
});

test("a reply of another type is refused", async () => {
  const fault = await read((response) => {
    response.writeHead(200, { "content-type": "application/connect+json" });
    response.end(output("a"));
  });
  expect(fault).toMatchObject({ code: "internal" });
});
