/** What the document says of the query of a route is what the route accepts. */

import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { ROUTES } from "../../../src/control/routes/index.ts";
import { CONTENT_ROUTES } from "../../../src/control/volume-content-routes.ts";
import { documentedQuery } from "../../support/control/api-document.ts";

const numberSchema = z.object({ type: z.literal("integer"), minimum: z.int(), maximum: z.int() });
const SAMPLES = ["1", "running"];

interface Parameter {
  readonly where: string;
  readonly accepts: z.ZodType;
  readonly listed: unknown;
}

const parameters: readonly Parameter[] = [...ROUTES, ...CONTENT_ROUTES].flatMap((route) => {
  if (!(route.query instanceof z.ZodObject)) return [];
  const listed = documentedQuery(route);
  return Object.entries(route.query.shape).map(([name, accepts]) => {
    return { where: `${route.method} ${route.path} ${name}`, accepts, listed: listed[name] };
  });
});

function parsed({ accepts }: Parameter): unknown[] {
  return SAMPLES.map((text) => accepts.safeParse(text).data);
}

const numbers = parameters.filter((one) => parsed(one).some((value) => typeof value === "number"));
const lists = parameters.filter((one) => parsed(one).some((value) => Array.isArray(value)));

test("there are both kinds", () => {
  expect([numbers.length, lists.length]).toEqual([expect.toSatisfy((n) => n > 20), 2]);
});

test.for(numbers)("$where is an integer within the bounds that count", ({ accepts, listed }) => {
  const { minimum, maximum } = numberSchema.parse(listed);
  const takes = (value: number) => accepts.safeParse(String(value)).success;
  expect([minimum, maximum].map(takes)).toEqual([true, true]);
  expect([minimum - 1, maximum + 1].map(takes)).toEqual([false, false]);
});

test.for(lists)("$where is a list of one item at least", ({ accepts, listed }) => {
  expect(accepts.safeParse("").success).toBe(false);
  expect(listed).toMatchObject({ type: "array", minItems: 1 });
});
