/** What every host relies on in the list of tools, and the manifest that is made from it. */

import { expect, test } from "vitest";
import { createService } from "../../src/client/service.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { toJsonSchema } from "../../src/common/schema.ts";
import { renderManifest } from "../../src/mcp/manifest.ts";
import { startMcpState } from "../../src/mcp/state.ts";
import { listedOutput } from "../../src/mcp/tool.ts";
import { TOOLS } from "../../src/mcp/tools/index.ts";
import { startMcpHost } from "../support/mcp/mcp-host.ts";

/** The names that the product was asked for. */
const PROMISED = [
  "compose_files",
  "create_sandbox",
  "read_file",
  "run_process",
  "send_signal",
  "snapshot",
  "watch_path",
];

const HINTS = ["destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint"];
const MAX_CORE_TOOLS = 24;
const MAX_CORE_TOKENS = 8_500;
const MAX_TOOLS = 36;
const MAX_TOKENS = 12_250;

/** A service that nobody answers for: listing tools must not need one. */
function startState() {
  const service = createService({ url: "http://127.0.0.1:9", apiKey: "none" });
  const state = startMcpState({
    service: () => service,
    log: createSilentLog(),
    onExit: () => "leave",
  });
  return {
    state,
    async [Symbol.asyncDispose]() {
      await state[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    },
  };
}

async function listTools() {
  await using started = startState();
  await using host = await startMcpHost(started.state);
  const { tools } = await host.client.listTools();
  return tools;
}

test("the promised tools are listed", async () => {
  const names = (await listTools()).map((tool) => tool.name);
  expect(names).toEqual(expect.arrayContaining(PROMISED));
});

test("the table is in the order of names", () => {
  const names = TOOLS.map((tool) => tool.name);
  expect(names).toEqual(names.toSorted());
});

test("every tool is named, described and annotated within the limits of hosts", async () => {
  const faults = (await listTools()).flatMap(({ name, title = "", description = "", ...rest }) => [
    ...(/^[a-z][a-z0-9_]{0,23}$/.test(name) ? [] : [`${name}: name`]),
    ...(title.length > 0 && title.length <= 40 ? [] : [`${name}: title`]),
    ...(description.length > 40 && description.length <= 1_024 ? [] : [`${name}: description`]),
    ...hintFaults(name, rest.annotations),
  ]);
  expect(faults).toEqual([]);
});

function hintFaults(name: string, annotations: object | undefined): string[] {
  const entries = Object.entries(annotations ?? {});
  const keys = entries.map(([key]) => key).toSorted();
  const isComplete = JSON.stringify(keys) === JSON.stringify(HINTS);
  const isBoolean = entries.every(([, value]) => typeof value === "boolean");
  return isComplete && isBoolean ? [] : [`${name}: annotations`];
}

const FORBIDDEN = ["$ref", "$schema", "propertyNames", "exclusiveMinimum", "exclusiveMaximum"];
/** Converters of some providers and hosts refuse these, in arguments or in replies. */
const NOT_PORTABLE = ["const", "format", "anyOf", "oneOf", "allOf"];
const FORBIDDEN_AT_ROOT = ["oneOf", "anyOf", "allOf"];

test("every schema is plain enough for the strictest host", async () => {
  const tools = await listTools();
  const faults = tools.flatMap(({ name, inputSchema, outputSchema }) => [
    ...schemaFaults(`${name} input`, inputSchema),
    ...schemaFaults(`${name} output`, outputSchema ?? { type: "object" }),
    ...classFaults(`${name} input`, inputSchema),
    ...(inputSchema["additionalProperties"] === false ? [] : [`${name} input: open`]),
    ...wordFaults(`${name} input`, inputSchema, NOT_PORTABLE),
    ...wordFaults(`${name} output`, outputSchema ?? { type: "object" }, NOT_PORTABLE),
    ...numbersWithoutBounds(inputSchema).map((path) => `${name}${path}: no bounds`),
    ...fieldsWithoutDescription(inputSchema).map((path) => `${name}${path}: no description`),
  ]);
  expect(faults).toEqual([]);
});

function schemaFaults(name: string, schema: Schema): string[] {
  return [
    ...(schema["type"] === "object" ? [] : [`${name}: no object`]),
    ...wordFaults(name, schema, FORBIDDEN),
    ...FORBIDDEN_AT_ROOT.filter((word) => word in schema).map((word) => `${name}: ${word}`),
  ];
}

function wordFaults(name: string, schema: Schema, words: readonly string[]): string[] {
  const text = JSON.stringify(schema);
  return words.filter((word) => text.includes(`"${word}":`)).map((word) => `${name}: ${word}`);
}

/** `\w` and `\d` are of ASCII in ECMAScript and of every script in Python and Rust. */
function classFaults(name: string, schema: Schema): string[] {
  const hasClass = /"pattern":"[^"]*\\\\[dsw]/i.test(JSON.stringify(schema));
  return hasClass ? [`${name}: a class in a pattern`] : [];
}

test("a live server lists what the schemas say", async () => {
  const listed = await listTools();
  expect(
    listed.map(({ name, inputSchema, outputSchema }) => [name, inputSchema, outputSchema]),
  ).toEqual(
    TOOLS.map((tool) => {
      const output = listedOutput(tool);
      return [
        tool.name,
        toJsonSchema(tool.input, "input"),
        output && toJsonSchema(output, "output"),
      ];
    }),
  );
});

test("the checks find the faults that they look for", () => {
  const properties = { count: { type: "integer", minimum: 0 } };
  const schema = { type: "array", anyOf: [], properties, propertyNames: {} };
  expect([
    ...schemaFaults("x", schema),
    ...wordFaults("x", { items: { const: 1 } }, NOT_PORTABLE),
    ...classFaults("x", { pattern: "^a\\w$" }),
    ...numbersWithoutBounds(schema),
    ...fieldsWithoutDescription(schema),
    ...hintFaults("x", { readOnlyHint: true }),
  ]).toEqual([
    "x: no object",
    "x: propertyNames",
    "x: anyOf",
    "x: const",
    "x: a class in a pattern",
    ".count",
    ".count",
    "x: annotations",
  ]);
});

test.for([
  { toolset: "core", maxTools: MAX_CORE_TOOLS, maxTokens: MAX_CORE_TOKENS },
  { toolset: "all", maxTools: MAX_TOOLS, maxTokens: MAX_TOKENS },
] as const)("the toolset $toolset stays within its budget", async (row) => {
  await using started = startState();
  const tools = TOOLS.filter((tool) => row.toolset === "all" || tool.toolset === "core");
  expect(tools.length).toBeLessThanOrEqual(row.maxTools);
  const text = await renderManifest({ state: started.state, tools, version: "0.0.0" });
  const manifest: unknown = JSON.parse(text);
  expect(manifest).toMatchObject({ version: 1, budget: { tools: tools.length } });
  const tokens = /"approxTokens": ([0-9]+)/.exec(text)?.[1];
  expect(Number(tokens)).toBeLessThanOrEqual(row.maxTokens);
});

test("the manifest is the same text every time", async () => {
  await using started = startState();
  const options = { state: started.state, tools: TOOLS, version: "0.0.0" };
  expect(await renderManifest(options)).toBe(await renderManifest(options));
});

type Schema = Readonly<Record<string, unknown>>;

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null;
}

/** Every schema within a schema, with the path that leads to it. */
function* walk(schema: unknown, path = ""): Generator<readonly [string, Schema]> {
  if (!isSchema(schema)) return;
  yield [path, schema];
  const { properties, items } = schema;
  for (const [name, child] of Object.entries(isSchema(properties) ? properties : {})) {
    yield* walk(child, `${path}.${name}`);
  }
  if (items !== undefined) yield* walk(items, `${path}[]`);
}

function numbersWithoutBounds(schema: unknown): string[] {
  return [...walk(schema)]
    .filter(([, { type }]) => type === "integer" || type === "number")
    .filter(([, { minimum, maximum }]) => minimum === undefined || maximum === undefined)
    .map(([path]) => path);
}

function fieldsWithoutDescription(schema: unknown): string[] {
  return [...walk(schema)]
    .filter(([path, { description }]) => path !== "" && !path.endsWith("[]") && !description)
    .map(([path]) => path);
}
