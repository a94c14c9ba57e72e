/** The input schemas of all tools in the forms of three providers, made by their own SDKs. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { z } from "../../src/common/schema.ts";
import type { Steps } from "../demo/steps.ts";
import type { Target } from "./foreign-client.ts";
import { PIXEL } from "./story.ts";

const LIMIT_MS = 120_000;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

const outcomesSchema = z.record(
  z.string(),
  z.object({ schema: z.unknown().optional(), error: z.string().optional() }),
);
const declaredSchema = z.array(z.object({ name: z.string(), schema: z.unknown() }));
const convertedSchema = z.object({
  tools: z.array(z.string()),
  openai: outcomesSchema,
  anthropicStrict: outcomesSchema,
  anthropic: declaredSchema,
  google: declaredSchema,
  called: z.record(z.string(), z.unknown()),
});

/** Keywords that the provider refuses or ignores silently; a schema that has one says less there. */
const UNKNOWN_TO = {
  openai: ["allOf", "oneOf", "not", "if", "then", "else", "patternProperties", "$ref"],
  google: ["allOf", "oneOf", "not", "patternProperties", "$ref", "exclusiveMinimum", "const"],
  anthropic: ["allOf", "oneOf", "not", "patternProperties", "$ref"],
} as const;

/** One step for each provider, and one for calls through its helpers. */
export async function convertSchemas(
  program: string,
  { steps, target }: { readonly steps: Steps; readonly target: Target },
): Promise<void> {
  let converted: z.infer<typeof convertedSchema> | undefined;
  await steps.run("schemas: are converted by the SDKs", async () => {
    const words = [program, JSON.stringify(target), PIXEL];
    const limits = { timeout: LIMIT_MS, maxBuffer: MAX_OUTPUT_BYTES };
    const { stdout } = await promisify(execFile)(process.execPath, words, limits);
    converted = convertedSchema.parse(JSON.parse(stdout));
    return `${converted.tools.length} tools`;
  });
  if (converted === undefined) return;
  const { tools, openai, anthropic, anthropicStrict, google, called } = converted;
  await steps.run("schemas: OpenAI strict", async () => {
    requireAll(openai, tools);
    for (const [name, { schema }] of Object.entries(openai)) {
      requireStrict(schema, name);
      requireWithout(schema, UNKNOWN_TO.openai, name);
    }
  });
  await steps.run("schemas: Anthropic, and its strict form", async () => {
    assert.deepEqual(anthropic.map(({ name }) => name).toSorted(), tools.toSorted());
    requireAll(anthropicStrict, tools);
    for (const { name, schema } of anthropic) requireWithout(schema, UNKNOWN_TO.anthropic, name);
  });
  await steps.run("schemas: Gemini", async () => {
    assert.deepEqual(google.map(({ name }) => name).toSorted(), tools.toSorted());
    for (const { name, schema } of google) requireWithout(schema, UNKNOWN_TO.google, name);
  });
  await steps.run("schemas: calls through the helpers, null for all that is optional", async () => {
    assert.match(JSON.stringify(called["anthropic"]), /exit_code: 0 .*converted/);
    assert.match(JSON.stringify(called["google"]), /exit_code: 0 .*converted/);
    assert.match(JSON.stringify(called["anthropicPicture"]), /"media_type":"image\/png"/);
  });
}

function requireAll(outcomes: z.infer<typeof outcomesSchema>, tools: readonly string[]): void {
  assert.deepEqual(Object.keys(outcomes).toSorted(), tools.toSorted());
  const errors = Object.entries(outcomes).flatMap(([name, { error }]) =>
    error === undefined ? [] : [`${name}: ${error}`],
  );
  assert.deepEqual(errors, []);
}

/** Every object closed, every field required. */
function requireStrict(schema: unknown, place: string): void {
  if (typeof schema !== "object" || schema === null) return;
  if ("properties" in schema && "type" in schema && schema.type === "object") {
    assert.equal("additionalProperties" in schema && schema.additionalProperties, false, place);
    const required = z.array(z.string()).parse("required" in schema ? schema.required : []);
    const names = Object.keys(schema.properties ?? {});
    assert.deepEqual(required.toSorted(), names.toSorted(), place);
  }
  for (const [name, part] of Object.entries(schema)) requireStrict(part, `${place}.${name}`);
}

function requireWithout(schema: unknown, keywords: readonly string[], place: string): void {
  if (typeof schema !== "object" || schema === null) return;
  for (const [name, part] of Object.entries(schema)) {
    // Below `properties` a name is that of a field.
    assert.ok(place.endsWith(".properties") || !keywords.includes(name), `${place}: ${name}`);
    requireWithout(part, keywords, `${place}.${name}`);
  }
}
