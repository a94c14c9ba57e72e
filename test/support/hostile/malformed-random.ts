/** Faulty JSON-RPC messages by seeded chance: valid ones whose values, keys or bytes were changed. */

import { mutate, type Random } from "../random.ts";
import type { Malformed } from "./malformed.ts";

/** A new id in each; nothing here starts anything. */
const FIRST_ID = 1_000_000;
const MAX_CHANGES = 4;
const DEEP = 80;
/** Of a message that is not parsed, because of its size or levels, no longer id is repeated. */
const MAX_ID_LENGTH = 40;

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const BASES: readonly { readonly method: string; readonly params?: Json }[] = [
  { method: "ping" },
  { method: "tools/list", params: { cursor: "a", _meta: { progressToken: 1 } } },
  { method: "tools/call", params: { name: "list_sandboxes", arguments: {} } },
  {
    method: "tools/call",
    params: {
      name: "run_process",
      arguments: { sandbox_id: "none", command: "sh", args: ["-c", "true"], env: [] },
      _meta: { progressToken: "p" },
    },
  },
  { method: "tools/call", params: { name: "read_file", arguments: { path: "/a", offset: 1 } } },
  { method: "resources/list" },
  { method: "resources/templates/list", params: {} },
  { method: "resources/read", params: { uri: "sandbox://none/logs" } },
  { method: "resources/subscribe", params: { uri: "sandbox://none/logs" } },
  { method: "logging/setLevel", params: { level: "info" } },
  { method: "prompts/get", params: { name: "a", arguments: {} } },
  { method: "completion/complete", params: { ref: { type: "ref/prompt", name: "a" } } },
  {
    method: "initialize",
    params: {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "a", version: "1" },
    },
  },
  { method: "notifications/initialized" },
  { method: "notifications/progress", params: { progressToken: 1, progress: 1 } },
];

const WORDS = ["", "__proto__", "constructor", "toString", "id", "method", "params", "result"];

/** As many as are asked for; `\n` in none, since it ends a message on stdio. */
export function randomMessages(random: Random, amount: number): Malformed[] {
  return Array.from({ length: amount }, (_none, index) => {
    const base = random.pick(BASES);
    const isRequest = !base.method.startsWith("notifications/");
    const id = random.once(2) ? FIRST_ID + index : `m${FIRST_ID + index}`;
    const message: Json = { jsonrpc: "2.0", ...(isRequest && { id }), ...structuredClone(base) };
    const changes = 1 + random.below(MAX_CHANGES);
    for (let count = 0; count < changes; count += 1) change(random, message);
    const text = JSON.stringify(message);
    const bytes = random.once(3) ? mutate(random, Buffer.from(text)) : Buffer.from(text);
    const line = bytes.toString("utf8").replaceAll(/[\r\n]/g, " ");
    return { line, ...idOf(line) };
  });
}

/** Changes one place of the value: another type, no key, one more key, or many levels. */
function change(random: Random, root: Json): void {
  let place: Json = root;
  for (;;) {
    if (typeof place !== "object" || place === null) return;
    const keys = Object.keys(place);
    const key = keys.length === 0 ? "a" : random.pick(keys);
    const inner = readOwn(place, key);
    const goesOn = typeof inner === "object" && inner !== null && !random.once(3);
    if (!goesOn) return changeIn(random, place, key);
    place = inner;
  }
}

function changeIn(random: Random, holder: object, key: string): void {
  const kind = random.pick(["value", "value", "remove", "add", "wrap"] as const);
  if (kind === "remove") Reflect.deleteProperty(holder, key);
  else if (kind === "add") setOwn(holder, random.pick(WORDS), anyValue(random));
  else if (kind === "wrap") setOwn(holder, key, nest(readOwn(holder, key), random.below(DEEP)));
  else setOwn(holder, key, anyValue(random));
}

function readOwn(holder: object, key: string): Json {
  const value: Json | undefined = Object.getOwnPropertyDescriptor(holder, key)?.value;
  return value ?? null;
}

/** Also `__proto__`, which an assignment would take for the prototype. */
function setOwn(holder: object, key: string, value: Json): void {
  Object.defineProperty(holder, key, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

function nest(value: Json, depth: number): Json {
  let nested = value;
  for (let level = 0; level < depth; level += 1)
    nested = level % 2 === 0 ? [nested] : { a: nested };
  return nested;
}

function anyValue(random: Random): Json {
  const values: readonly Json[] = [
    null,
    true,
    -1,
    0.5,
    1e300,
    "",
    "\u0000\u001b[2J\u202e",
    "\ud800",
    random.bytes(1 + random.below(64)).toString("latin1"),
    "x".repeat(random.below(10_000)),
    [],
    {},
    [null, [], {}],
    { a: { b: [1] } },
  ];
  return random.pick(values);
}

/** The id that a reply must repeat: of an object with a text or a number, and no reply itself. */
function idOf(line: string): Pick<Malformed, "id"> {
  try {
    const message: unknown = JSON.parse(line);
    if (typeof message !== "object" || message === null || Array.isArray(message)) return {};
    if (!Object.hasOwn(message, "method") || !("id" in message)) return {};
    const { id } = message;
    if (typeof id === "string") return id.length <= MAX_ID_LENGTH ? { id } : {};
    return Number.isSafeInteger(id) ? { id: Number(id) } : {};
  } catch {
    return {};
  }
}
