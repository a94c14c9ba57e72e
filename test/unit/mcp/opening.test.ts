/** The opening of a host without the MCP library: what is answered, and what is left to that. */

import { expect, test } from "vitest";
import { createOpening, type Opening } from "../../../src/mcp/stdio/opening.ts";

const ANSWERS = { initialize: { capabilities: {} }, tools: [{ name: "one" }] };
const PARAMS = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "host", version: "1" },
};
const INITIALIZE = { jsonrpc: "2.0", id: 1, method: "initialize", params: PARAMS };
const INITIALIZED = { jsonrpc: "2.0", method: "notifications/initialized" };
const PING = { jsonrpc: "2.0", id: 2, method: "ping" };
const LIST = { jsonrpc: "2.0", id: "l", method: "tools/list" };

const SHAKEN =
  '{"result":{"protocolVersion":"2025-06-18","capabilities":{}},"jsonrpc":"2.0","id":1}';
const PINGED = '{"result":{},"jsonrpc":"2.0","id":2}';
const LISTED = '{"result":{"tools":[{"name":"one"}]},"jsonrpc":"2.0","id":"l"}';

function open(): { readonly opening: Opening; readonly written: string[] } {
  const written: string[] = [];
  const opening = createOpening({ answers: ANSWERS, write: (line) => void written.push(line) });
  return { opening, written };
}

function lines(...messages: readonly (object | string)[]): Buffer {
  const texts = messages.map((each) => (typeof each === "string" ? each : JSON.stringify(each)));
  return Buffer.from(texts.map((text) => `${text}\n`).join(""));
}

test("an opening is answered and ends by the list", () => {
  const { opening, written } = open();
  const later = lines(PING);
  const bytes = lines(INITIALIZE, INITIALIZED, PING, LIST);
  expect(opening.take(Buffer.concat([bytes, later]))).toBe(false);
  expect(written).toEqual([SHAKEN, PINGED, LISTED]);
  expect(opening.isListed).toBe(true);
  const { answered, rest } = opening.heard();
  expect(answered.map(({ id }) => id)).toEqual([1, undefined, 2, "l"]);
  expect(Buffer.concat(answered.map((line) => line.bytes))).toEqual(bytes);
  expect(rest).toEqual(later);
});

test("bytes may come one by one", () => {
  const { opening, written } = open();
  const bytes = lines(INITIALIZE, INITIALIZED, LIST);
  const taken = [...bytes].map((byte) => opening.take(Buffer.from([byte])));
  expect(taken.slice(0, -1)).not.toContain(false);
  expect(taken.at(-1)).toBe(false);
  expect(written).toEqual([SHAKEN, LISTED]);
});

const withParams = (params: object) => ({ ...INITIALIZE, params: { ...PARAMS, ...params } });
const withAbilities = (capabilities: unknown) => withParams({ capabilities });

test.for<readonly [string, object | string]>([
  ["no JSON", "{bad"],
  ["a blank line", ""],
  ["a batch", [INITIALIZE]],
  ["a number", "1"],
  ["another version of JSON-RPC", { ...INITIALIZE, jsonrpc: "1.0" }],
  ["no version of JSON-RPC", { id: 1, method: "initialize", params: PARAMS }],
  ["no id", { jsonrpc: "2.0", method: "initialize", params: PARAMS }],
  ["an id of null", { ...INITIALIZE, id: null }],
  ["an id that is a fraction", { ...INITIALIZE, id: 1.5 }],
  ["an id that is no exact number", '{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}'],
  ["another member", { ...INITIALIZE, result: {} }],
  ["a prototype", JSON.stringify(INITIALIZE).replace("{", '{"__proto__":{},')],
  ["a byte order mark", `\uFEFF${JSON.stringify(INITIALIZE)}`],
  ["a name that is not ASCII", withParams({ clientInfo: { name: "hôte", version: "1" } })],
  ["no parameters", { jsonrpc: "2.0", id: 1, method: "initialize" }],
  ["another parameter", withParams({ _meta: {} })],
  ["the newer revision", withParams({ protocolVersion: "2026-07-28" })],
  ["a revision of nobody", withParams({ protocolVersion: "1999-01-01" })],
  ["no client", { ...INITIALIZE, params: { protocolVersion: "2025-06-18", capabilities: {} } }],
  ["a client without a name", withParams({ clientInfo: { version: "1" } })],
  ["a client without a version", withParams({ clientInfo: { name: "host" } })],
  ["a client with icons", withParams({ clientInfo: { ...PARAMS.clientInfo, icons: [] } })],
  ["a name that is no text", withParams({ clientInfo: { name: 1, version: "1" } })],
  ["no abilities", withAbilities(undefined)],
  ["abilities in a list", withAbilities([])],
  ["an unknown ability", withAbilities({ tasks: {} })],
  ["an experiment", withAbilities({ experimental: { a: {} } })],
  ["roots of another form", withAbilities({ roots: { listChanged: 1 } })],
  ["a probe of the newer era", { jsonrpc: "2.0", id: 1, method: "server/discover" }],
  ["a list first", LIST],
  ["a ping first", PING],
])("the library answers %s", (row) => {
  const { opening, written } = open();
  const bytes = lines(row[1], LIST);
  expect(opening.take(bytes)).toBe(false);
  expect(written).toEqual([]);
  expect(opening.heard()).toEqual({ answered: [], rest: bytes });
  expect(opening.isListed).toBe(false);
});

test.for<readonly [string, object]>([
  ["a second handshake", { ...INITIALIZE, id: 2 }],
  ["a call", { jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "one" } }],
  ["a page of the list", { ...LIST, params: { cursor: "a" } }],
  ["a list with a token", { ...LIST, params: { _meta: { progressToken: 1 } } }],
  ["a list without an id", { jsonrpc: "2.0", method: "tools/list" }],
  ["a ping without an id", { jsonrpc: "2.0", method: "ping" }],
  ["a request that is a notification", { ...INITIALIZED, id: 3 }],
  ["a notification with parameters", { ...INITIALIZED, params: { a: 1 } }],
  ["a cancellation", { jsonrpc: "2.0", method: "notifications/cancelled", params: {} }],
  ["a batch", [PING]],
])("after the handshake the library answers %s", (row) => {
  const { opening, written } = open();
  const bytes = lines(row[1], LIST);
  expect(opening.take(Buffer.concat([lines(INITIALIZE), bytes]))).toBe(false);
  expect(written).toEqual([SHAKEN]);
  expect(opening.heard().rest).toEqual(bytes);
});

test("a host that only pings is left to the library, as is a long message", () => {
  const { opening, written } = open();
  const pings = Array.from({ length: 20 }, () => PING);
  expect(opening.take(lines(INITIALIZE, ...pings))).toBe(false);
  expect(written).toHaveLength(16);
  expect(opening.heard().rest).toEqual(lines(...pings.slice(15)));
  const long = open().opening;
  expect(long.take(Buffer.alloc(65_536, " "))).toBe(true);
  expect(long.take(Buffer.from(" "))).toBe(false);
  expect(long.heard().rest).toHaveLength(65_537);
});
