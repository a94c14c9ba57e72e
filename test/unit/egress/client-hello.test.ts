/** The server name of a TLS client, whole, in pieces and mutilated. */

import { Duplex } from "node:stream";
import { connect } from "node:tls";
import { expect, test } from "vitest";
import { readServerName } from "../../../src/egress/client-hello.ts";
import { createRandom, mutate } from "../../support/random.ts";

const MUTATIONS = 3_000;

/** What node's own client sends first. */
async function helloOf(servername: string): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  const wire = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer) => resolve(Buffer.from(chunk)),
  });
  const client = connect({ socket: wire, servername });
  client.on("error", () => undefined);
  const hello = await promise;
  client.destroy();
  return hello;
}

/** The same message in records of so many bytes. */
function inRecords(hello: Buffer, sizeBytes: number): Buffer {
  const handshake = hello.subarray(5);
  const records: Buffer[] = [];
  for (let at = 0; at < handshake.length; at += sizeBytes) {
    const part = handshake.subarray(at, at + sizeBytes);
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(records);
}

test("the name is found as soon as all of the message is there", async () => {
  const hello = await helloOf("Service.Example.test");
  expect(readServerName(hello)).toEqual({ kind: "name", name: "service.example.test" });
  for (let length = 0; length < hello.length; length += 1) {
    expect(readServerName(hello.subarray(0, length))).toEqual({ kind: "more" });
  }
  expect(readServerName(inRecords(hello, 7))).toEqual({
    kind: "name",
    name: "service.example.test",
  });
});

test("what a client sends behind its first message does not matter, within it it is refused", async () => {
  const hello = await helloOf("service.example.test");
  const early = Buffer.from([20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 4, 1, 2, 3, 4]);
  const name = { kind: "name", name: "service.example.test" };
  expect(readServerName(Buffer.concat([hello, early]))).toEqual(name);
  const records = inRecords(hello, 100);
  const torn = Buffer.concat([records.subarray(0, 105), early, records.subarray(105)]);
  expect(readServerName(torn)).toEqual({ kind: "refused" });
});

test("no name, two names, a name with a NUL and what is no TLS are refused", async () => {
  const refused = { kind: "refused" };
  expect(readServerName(await helloOf(""))).toEqual(refused);
  const hello = await helloOf("a.test.example.test");
  const withNul = Buffer.from(hello);
  withNul[hello.indexOf("a.test.example") + 6] = 0;
  expect(readServerName(withNul)).toEqual(refused);
  const twice = Buffer.from(hello);
  // The first name ends early, and the rest is read as one more entry.
  const at = twice.indexOf("a.test.example.test");
  twice.writeUInt16BE(6, at - 2);
  twice.set([0, 0, 10], at + 6);
  expect(readServerName(twice)).toEqual(refused);
  expect(readServerName(Buffer.from("GET / HTTP/1.1\r\n\r\n"))).toEqual(refused);
  expect(readServerName(Buffer.from([22, 3, 1, 255, 255]))).toEqual(refused);
  expect(readServerName(Buffer.from([22, 3, 1, 0, 4, 1, 255, 255, 255]))).toEqual(refused);
});

test("whatever is sent is refused, waited for or a plain name", async () => {
  const hello = await helloOf("service.example.test");
  for (let seed = 0; seed < MUTATIONS; seed += 1) {
    const found = readServerName(mutate(createRandom(seed), hello));
    expect(found.kind === "name" ? found.name : found.kind).toMatch(/^[a-z0-9_.-]+$/);
  }
});
