/** The one door to zod 4, and the one way from a schema to JSON Schema. */

import { z } from "zod";

export { z };

/** A portable JSON Schema (draft 2020-12, no `$ref`) of the input or output form of a schema. */
export function toJsonSchema(schema: z.ZodType, io: "input" | "output"): object {
  return z.toJSONSchema(schema, { io, target: "draft-2020-12", reused: "inline" });
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
