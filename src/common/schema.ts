/** The one door to zod 4, and the one way from a schema to JSON Schema. */

import { z } from "zod";

export { z };

/** A portable JSON Schema (draft 2020-12, no `$ref`) of the input or output form of a schema. */
export function toJsonSchema(schema: z.ZodType, io: "input" | "output"): Record<string, unknown> {
  const options = { io, target: "draft-2020-12", reused: "inline" } as const;
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, options);
  return rest;
}

/**
 * A schema for the MCP library, listed by `toJsonSchema`: without the name of its dialect, which
 * some hosts refuse, all others take for granted, and a model would pay for in every tool.
 */
export function toListedSchema<T extends z.ZodObject>(schema: T) {
  const jsonSchema = {
    input: () => toJsonSchema(schema, "input"),
    output: () => toJsonSchema(schema, "output"),
  };
  return { "~standard": { ...schema["~standard"], jsonSchema } };
}

/** All faults of a failed parse as one line, each with the field that it concerns. */
export function faultsOf(error: z.ZodError): string {
  return error.issues
    .map((issue) => {
      const path = issue.path.map(String).join(".");
      return path === "" ? issue.message : `${path}: ${issue.message}`;
    })
    .join("; ");
}
