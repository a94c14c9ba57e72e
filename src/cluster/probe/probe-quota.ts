/** What the quotas of a namespace leave for sandboxes. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import type { ClusterApi } from "../api/api.ts";

const UNITS: Readonly<Record<string, number>> = {
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};
const QUANTITY = /^([0-9]+(?:\.[0-9]+)?)(m|[kMGT]i?|Ki)?$/;

const amounts = z.record(z.string(), z.string());
const quotasSchema = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string() }),
      spec: z.object({
        scopes: z.array(z.unknown()).optional(),
        scopeSelector: z.unknown().optional(),
      }),
      status: z.object({ hard: amounts.optional(), used: amounts.optional() }).optional(),
    }),
  ),
});

/** What one Pod of a sandbox asks for. */
const podSchema = z.object({
  spec: z.object({
    containers: z.tuple([
      z.object({ resources: z.object({ limits: amounts, requests: amounts }) }),
    ]),
  }),
});

interface Remainder {
  readonly count: number;
  /** What ends first, as `NAME: KEY`. */
  readonly bound: string;
}

/**
 * How many more sandboxes fit into the quotas that hold for every Pod.
 * @throws SandboxError resource_exhausted when none fits, unavailable
 */
export async function checkQuota(api: ClusterApi, pod: unknown): Promise<string> {
  const reply = await api.call({ method: "GET", path: "resourcequotas" });
  const { items } = quotasSchema.parse(reply);
  const needs = needsOf(pod);
  const remainders = items.flatMap(({ metadata: { name }, spec, status = {} }) => {
    const isPartial = (spec.scopes?.length ?? 0) > 0 || spec.scopeSelector !== undefined;
    if (isPartial) return [];
    return Object.entries(status.hard ?? {}).flatMap(([key, hard]): Remainder[] => {
      const need = needs.get(key);
      const left = toNumber(hard) - toNumber(status.used?.[key] ?? "0");
      if (need === undefined || need === 0 || Number.isNaN(left)) return [];
      return [{ count: Math.max(0, Math.floor(left / need)), bound: `${name}: ${key}` }];
    });
  });
  const [least] = remainders.toSorted((left, right) => left.count - right.count);
  if (least === undefined) return "no quota bounds the sandboxes";
  const text = `${least.count} more sandboxes fit (${least.bound})`;
  if (least.count > 0) return text;
  throw new SandboxError("resource_exhausted", text, {
    hint: "raise this ResourceQuota, or give sandboxes smaller limits and requests",
  });
}

/** What one sandbox takes, by the keys of quotas. */
function needsOf(pod: unknown): ReadonlyMap<string, number> {
  const { limits, requests } = podSchema.parse(pod).spec.containers[0].resources;
  const needs = new Map<string, number>();
  for (const kind of ["pods", "configmaps"]) needs.set(kind, 1).set(`count/${kind}`, 1);
  for (const [name, amount] of Object.entries(limits)) {
    needs.set(`limits.${name}`, toNumber(amount));
  }
  for (const [name, amount] of Object.entries(requests)) {
    needs.set(`requests.${name}`, toNumber(amount)).set(name, toNumber(amount));
  }
  return needs;
}

/** NaN for what is no quantity of these units. */
function toNumber(quantity: string): number {
  const [, digits, unit = ""] = QUANTITY.exec(quantity) ?? [];
  return Number(digits) * (UNITS[unit] ?? Number.NaN);
}
