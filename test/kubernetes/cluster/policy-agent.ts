/**
 * What a network plugin does about the egress of Pods, for tests: NetworkPolicies of one namespace as
 * rules of nftables. The bridge plugin of the cluster enforces none, and no plugin that does is a Go
 * module of the proxy. Between two Pods of the bridge nothing is filtered.
 */

import { execFileSync } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import type { ClusterApi } from "../../../src/cluster/api/api.ts";
import { z } from "../../../src/common/schema.ts";

const TABLE = "policies";
const POLL_MS = 200;

const labelsSchema = z.record(z.string(), z.string()).default({});
const podSchema = z.object({
  metadata: z.object({ labels: labelsSchema }),
  status: z.object({ podIP: z.string().optional() }).default({}),
});
const expressionSchema = z.strictObject({
  key: z.string(),
  operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
  values: z.array(z.string()).default([]),
});
const selectorSchema = z.strictObject({
  matchLabels: labelsSchema,
  matchExpressions: z.array(expressionSchema).default([]),
});
const blockSchema = z.strictObject({
  cidr: z.string(),
  except: z.array(z.string()).default([]),
});
/** Peers other than networks are not understood, and not passed over. */
const egressSchema = z.strictObject({
  to: z.array(z.strictObject({ ipBlock: blockSchema })).default([]),
  ports: z.array(z.strictObject({ protocol: z.string(), port: z.number() })).default([]),
});
const policySchema = z.object({
  spec: z.object({
    podSelector: selectorSchema,
    policyTypes: z.array(z.string()),
    egress: z.array(egressSchema).default([]),
  }),
});

type Policy = z.infer<typeof policySchema>["spec"];
type Egress = z.infer<typeof egressSchema>;

export interface PolicyAgent extends AsyncDisposable {
  /** Resolves when what was there before the call is enforced. */
  synchronize(): Promise<void>;
}

export function startPolicyAgent(admin: ClusterApi): PolicyAgent {
  let present = "";
  const ending = new AbortController();

  async function synchronize(): Promise<void> {
    const pods = await listOf(admin, "pods", podSchema);
    const policies = await listOf(admin, "networkpolicies", policySchema);
    const text = toRules(
      pods,
      policies.map(({ spec }) => spec).filter(({ policyTypes }) => policyTypes.includes("Egress")),
    );
    if (text === present) return;
    execFileSync("nft", ["-f", "-"], { input: text });
    present = text;
  }

  async function run(): Promise<void> {
    while (!ending.signal.aborted) {
      // While the API server is away the present rules hold.
      await synchronize().catch(() => undefined);
      await delay(POLL_MS);
    }
  }

  const running = run();
  return {
    synchronize,
    async [Symbol.asyncDispose]() {
      ending.abort();
      await running;
      execFileSync("nft", ["delete", "table", "inet", TABLE]);
    },
  };
}

async function listOf<T>(admin: ClusterApi, kind: string, schema: z.ZodType<T>): Promise<T[]> {
  const reply = await admin.call({ method: "GET", path: kind });
  return z.object({ items: z.array(schema) }).parse(reply).items;
}

/** The whole table, replaced at once. Replies of connections that were let through pass. */
function toRules(pods: readonly z.infer<typeof podSchema>[], policies: readonly Policy[]): string {
  const rules = pods.flatMap(({ metadata: { labels }, status: { podIP } }) => {
    const own = policies.filter(({ podSelector }) => selects(podSelector, labels));
    if (podIP === undefined || own.length === 0) return [];
    const from = `ip saddr ${podIP}`;
    const open = own.flatMap(({ egress }) => egress.flatMap((rule) => toMatches(rule)));
    return [...open.map((match) => `${from} ${match} accept`), `${from} reject`];
  });
  const chains = ["input", "forward"].map(
    (hook) => `chain ${hook} {
  type filter hook ${hook} priority 0; policy accept;
  ct state established,related accept
  ${rules.join("\n  ")}
}`,
  );
  return `table inet ${TABLE} {}
delete table inet ${TABLE}
table inet ${TABLE} {
${chains.join("\n")}
}
`;
}

function selects(
  { matchLabels, matchExpressions }: z.infer<typeof selectorSchema>,
  labels: Readonly<Record<string, string>>,
): boolean {
  const hasLabels = Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
  return (
    hasLabels &&
    matchExpressions.every(({ key, operator, values }) => {
      const value = labels[key];
      if (operator === "Exists") return value !== undefined;
      if (operator === "DoesNotExist") return value === undefined;
      const isIn = value !== undefined && values.includes(value);
      return operator === "In" ? isIn : !isIn;
    })
  );
}

/** A rule without peers or without ports opens all of them. */
function toMatches({ to, ports }: Egress): string[] {
  const blocks = to.length === 0 ? [""] : to.map(({ ipBlock }) => toMatch(ipBlock));
  const services = ports.map(({ protocol, port }) => `${protocol.toLowerCase()} dport ${port}`);
  return blocks.flatMap((block) =>
    (services.length === 0 ? [""] : services).map((service) => `${block} ${service}`),
  );
}

function toMatch({ cidr, except }: z.infer<typeof blockSchema>): string {
  const within = cidr === "0.0.0.0/0" ? "" : `ip daddr ${cidr}`;
  // The set of nftables takes overlapping networks only where it may merge them.
  const without = except.map((network) => `ip daddr != ${network}`).join(" ");
  return `${within} ${without}`;
}
