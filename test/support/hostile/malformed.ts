/** Malformed JSON-RPC messages, each as one line, with the id that needs an answer. */

export interface Malformed {
  readonly line: string;
  /** Absent where the message has no id that a reply can repeat, or is a reply. */
  readonly id?: string | number;
}

/** Values in the place of a text, an object or a list. */
const WRONG: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  "",
  "x",
  "\u0000",
  [],
  {},
  [[]],
  "\ud800",
];

/** Texts that are no JSON, or no message. */
const TEXTS: readonly string[] = [
  "no json",
  "{",
  "}",
  "[",
  "]",
  '"',
  "'",
  "{]",
  "[1,",
  "nul",
  "NaN",
  "1",
  '"text"',
  "null",
  "true",
  "{}",
  "[]",
  "[1]",
  "[[]]",
  "[{}]",
  "\u0000",
  "\u0001\u0002",
  "\u001b[31m",
  "\ufeff",
  "\ufeff{}",
  "Content-Length: 12",
  "GET / HTTP/1.1",
  "<xml/>",
  '{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0"}',
  '{"jsonrpc":"2.0","method":"ping",}',
  "{'jsonrpc':'2.0'}",
  '{"a":01}',
  '{"a":"\\x"}',
  "[".repeat(100_000),
  '{"a":'.repeat(100_000),
  `[${"{},".repeat(40_000)}{}]`,
  "x".repeat(1_000_000),
];

/** At least a hundred messages; ids are new in each. */
export function malformedMessages(): Malformed[] {
  let nextId = 10_000;
  const withId = (message: object): Malformed => {
    const id = nextId;
    nextId += 1;
    return { id, line: JSON.stringify({ jsonrpc: "2.0", id, ...message }) };
  };
  const call = (params: unknown) => withId({ method: "tools/call", params });
  return [
    ...TEXTS.map((line) => ({ line })),
    ...WRONG.map((method) => withId({ method })),
    ...WRONG.map((jsonrpc) => withId({ jsonrpc, method: "ping" })),
    ...WRONG.map((params) => withId({ method: "tools/list", params })),
    ...WRONG.map((params) => call(params)),
    ...WRONG.map((name) => call({ name, arguments: {} })),
    ...WRONG.map((argument) => call({ name: "list_sandboxes", arguments: argument })),
    ...WRONG.map((cursor) => withId({ method: "resources/read", params: { uri: cursor } })),
    ...WRONG.map((version) =>
      withId({ method: "initialize", params: { protocolVersion: version } }),
    ),
    ...WRONG.map((meta) => withId({ method: "ping", params: { _meta: meta } })),
    // What has no id that can be repeated, or is a reply to nothing.
    ...[null, true, {}, []].map((id) => ({
      line: JSON.stringify({ jsonrpc: "2.0", id, method: "ping" }),
    })),
    ...WRONG.map((result) => ({ line: JSON.stringify({ jsonrpc: "2.0", id: 1, result }) })),
    ...WRONG.map((error) => ({ line: JSON.stringify({ jsonrpc: "2.0", id: 1, error }) })),
    withId({}),
    withId({ method: "constructor" }),
    withId({ method: "__proto__" }),
    withId({ method: "no/such" }),
    withId({ method: "ping", result: {} }),
    withId({ method: "ping", extra: 1 }),
  ];
}
