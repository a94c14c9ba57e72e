import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { toClientHeaders, toUpstreamHeaders } from "../../../src/gateway/headers.ts";
import { closedEndpoint } from "../../support/control/endpoint.ts";

const TOKEN = "a".repeat(64);

function headersFor(port: number, servicePorts: readonly number[], value = TOKEN): string[] {
  const request = new IncomingMessage(new Socket());
  request.headers = { host: "a.test", "x-access-token": value };
  request.rawHeaders = ["Host", "a.test", "X-Access-Token", value];
  const endpoint = closedEndpoint({ accessToken: TOKEN, servicePorts });
  const keys = { isKey: () => false, given: [] };
  return toUpstreamHeaders(request, { endpoint, port, keys, scheme: "http" });
}

test.for([
  { port: 49_983, servicePorts: [], isPassed: true },
  { port: 49_999, servicePorts: [49_999], isPassed: true },
  { port: 49_999, servicePorts: [], isPassed: false },
  { port: 8_000, servicePorts: [49_999], isPassed: false },
])("the daemon's token to port $port with services at $servicePorts: $isPassed", (row) => {
  const headers = headersFor(row.port, row.servicePorts);
  expect(headers.includes("X-Access-Token")).toBe(row.isPassed);
  expect(headers.includes(TOKEN)).toBe(row.isPassed);
});

test.for([
  ["domain=a; Path=/", "domain=a; Path=/"],
  ["a=1; Domain=b.test; Path=/", "a=1; Path=/"],
  ["a=1; Domain=.own.test", "a=1; Domain=.own.test"],
])("of the cookie %s comes %s", ([sent = "", expected]) => {
  const reply = new IncomingMessage(new Socket());
  reply.rawHeaders = ["Set-Cookie", sent];
  const headers = toClientHeaders(reply, { host: "own.test", keepsCors: true });
  expect(headers).toEqual(["Set-Cookie", expected]);
});
