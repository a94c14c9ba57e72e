/**
 * Arguments as models send them. The listed schemas stay portable and strict; what a model writes
 * for "not given" is taken as that, and a map as the pairs that it stands for.
 */

import { toListedSchema, z } from "../common/schema.ts";
import { cutText, oneLine } from "../common/untrusted-text.ts";

/** Lists of these fields, when empty, say the same as their absence. */
const EMPTY_LISTS: ReadonlySet<string> = new Set(["args"]);

/** The arguments of a call without what stands for nothing; everything else is left to the schema. */
export function normalizeArguments(schema: z.ZodObject, given: unknown): unknown {
  if (given === undefined || given === null) return {};
  if (typeof given !== "object" || Array.isArray(given)) return given;
  const kept = Object.entries(given).flatMap(([name, value]) => {
    const field = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined;
    if (!(field instanceof z.ZodType)) return [[name, value] as const];
    if (isAbsent(name, value) && field.safeParse(undefined).success) return [];
    return [[name, isMap(value) && takesPairs(field) ? toPairs(value) : value] as const];
  });
  return Object.fromEntries(kept);
}

function isAbsent(name: string, value: unknown): boolean {
  if (value === null || value === "") return true;
  return EMPTY_LISTS.has(name) && Array.isArray(value) && value.length === 0;
}

function isMap(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value that every pairs field accepts and no other list does. */
const SAMPLE_PAIRS = [{ name: "a", value: "" }];

function takesPairs(field: z.ZodType): boolean {
  return field.safeParse(SAMPLE_PAIRS).success;
}

/**
 * Numbers and booleans become text; what is neither is left for the schema to refuse, as is a
 * number whose last digits were lost when it was parsed.
 */
function toPairs(map: object): unknown[] {
  return Object.entries(map).map(([name, value]) => ({ name, value: toText(value) }));
}

function toText(value: unknown): unknown {
  const isExact = typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return isExact || typeof value === "boolean" ? String(value) : value;
}

/** The listed schema of a tool's input, which normalises arguments before it checks them. */
export function acceptArguments<T extends z.ZodObject>(schema: T) {
  const { "~standard": listed } = toListedSchema(schema);
  const validate = (given: unknown) => {
    const normal = normalizeArguments(schema, given);
    const path = findHalf(normal);
    return path === undefined
      ? withPlainIssues(listed.validate(normal))
      : { issues: [plainIssue({ message: HALF, path })] };
  };
  return { "~standard": { ...listed, validate } };
}

type Result = ReturnType<ReturnType<typeof toListedSchema>["~standard"]["validate"]>;
type Issue = NonNullable<Awaited<Result>["issues"]>[number];

/** The reason of a refusal can name what the caller wrote, which must not forge lines of it. */
async function withPlainIssues(checking: Result): Promise<Awaited<Result>> {
  const result = await checking;
  if (result.issues === undefined) return result;
  return { issues: result.issues.slice(0, MAX_ISSUES).map((issue) => plainIssue(issue)) };
}

/** A model corrects a few faults at once. */
const MAX_ISSUES = 8;
const MAX_MESSAGE_CHARACTERS = 300;
const MAX_NAME_CHARACTERS = 64;

function plainIssue({ message, path = [] }: Issue): Issue {
  return {
    message: cutText(oneLine(message), MAX_MESSAGE_CHARACTERS),
    path: path.map((part) =>
      typeof part === "string" ? cutText(oneLine(part), MAX_NAME_CHARACTERS) : part,
    ),
  };
}

const HALF = "half a surrogate pair, which UTF-8 cannot hold; write the whole character";

/** The path of a text that would be changed on its way; undefined where there is none. */
function findHalf(value: unknown): readonly string[] | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : [];
  if (typeof value !== "object" || value === null) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    const path = findHalf(inner);
    if (path !== undefined) return [name, ...path];
  }
  return undefined;
}
