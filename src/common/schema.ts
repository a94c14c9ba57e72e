/** The only import of zod 4, and the only conversion of a schema to JSON Schema. */

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

/** A body can have thousands of faults; the first few are told. */
const MAX_FAULTS = 8;
/** A path has names that the sender chose, of any length. */
const MAX_PATH_CHARACTERS = 200;

/** The first faults of a failed parse as one line, each with the field that it concerns. */
export function faultsOf(error: z.ZodError): string {
  const { issues } = error;
  const told = issues.slice(0, MAX_FAULTS).map((issue) => {
    const path = issue.path.map(String).join(".").slice(0, MAX_PATH_CHARACTERS).toWellFormed();
    return path === "" ? issue.message : `${path}: ${issue.message}`;
  });
  const more = issues.length - told.length;
  return [...told, ...(more > 0 ? [`${more} more faults`] : [])].join("; ");
}
