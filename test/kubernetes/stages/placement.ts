/** `--pod-template` in YAML on a real cluster: what Pods get of it, and what cannot be placed. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, expectNothing, type World } from "../world.ts";
import { runMain } from "./doctor.ts";
import { clientOf } from "./faults.ts";

const PLACED = `# Comments, anchors and flow style are those of YAML 1.2.
apiVersion: v1
kind: Pod
metadata:
  labels: &team { team: research }
  annotations: { note: "on" } # a text, as every annotation is
spec:
  nodeSelector: { kubernetes.io/hostname: node1 }
  tolerations:
    - { key: sandboxes, operator: Exists, effect: NoSchedule }
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector: { matchLabels: *team }
  containers:
    - name: sandbox
      resources:
        requests: { cpu: 0.01, memory: 32Mi, ephemeral-storage: 0 }
`;

const NOWHERE = `spec:
  nodeSelector: { pool: nowhere }
  containers:
    - { name: sandbox, resources: { requests: { cpu: 10m, memory: 32Mi, ephemeral-storage: 0 } } }
`;

/** Refused before anything is created, with the place of the fault. */
const FAULTY = [
  ["spec: [", /line 1/],
  ["spec: { hostNetwork: true }", /spec: .*hostNetwork/],
  ["spec: {}\n---\nspec: {}\n", /2 documents/],
  ["spec: { nodeSelector: { pool: 1 } }", /spec\.nodeSelector\.pool/],
] as const;

const podSchema = z.object({
  metadata: z.object({
    labels: z.record(z.string(), z.string()),
    annotations: z.record(z.string(), z.string()),
  }),
  spec: z.object({
    hostUsers: z.boolean(),
    automountServiceAccountToken: z.boolean(),
    nodeSelector: z.record(z.string(), z.string()),
    tolerations: z.array(z.object({ key: z.string() })),
    topologySpreadConstraints: z.array(z.unknown()),
    containers: z.array(
      z.object({ resources: z.object({ requests: z.record(z.string(), z.string()) }) }),
    ),
  }),
});

export async function runPlacement(world: World): Promise<void> {
  const placed = join(world.directory, "placed.yaml");
  writeFileSync(placed, PLACED);
  await world.check("placement: a Pod has what the YAML says, and its isolation", async () => {
    await using front = world.startFront("placed", {}, { template: placed, pool: 0 });
    await front.ready();
    const sandbox = await Sandbox.create(clientOf(front.url, world.apiKey));
    const path = `pods/${sandbox.sandboxId}`;
    const pod = podSchema.parse(await world.admin.call({ method: "GET", path }));
    await sandbox.kill();
    const { metadata, spec } = pod;
    const isPlaced =
      metadata.labels["team"] === "research" &&
      metadata.annotations["note"] === "on" &&
      metadata.labels["sandbox-mcp.io/part"] === "sandbox" &&
      spec.nodeSelector["kubernetes.io/hostname"] === "node1" &&
      spec.topologySpreadConstraints.length === 1 &&
      spec.tolerations.some(({ key }) => key === "sandboxes") &&
      spec.tolerations.some(({ key }) => key === "node.kubernetes.io/unreachable");
    const { requests } = spec.containers[0]?.resources ?? { requests: {} };
    const asked = `${requests["cpu"]} ${requests["memory"]}`;
    const isIsolated = !spec.hostUsers && !spec.automountServiceAccountToken;
    if (!isPlaced || !isIsolated || asked !== "10m 32Mi") throw new Error(JSON.stringify(pod));
    await eventually(() => expectNothing(world.admin));
    return asked;
  });
  for (const [text, pattern] of FAULTY) {
    await world.check(`placement: refused at the start: ${JSON.stringify(text)}`, async () => {
      const file = join(world.directory, "faulty.yaml");
      writeFileSync(file, text);
      const { status, text: said } = await tryServe(world, file);
      if (status === 0 || !pattern.test(said)) throw new Error(`${status} ${said}`);
      return said.trim().split("\n", 1)[0];
    });
  }
  await checkNowhere(world);
}

async function tryServe({ cluster, account, image, apiKey }: World, template: string) {
  const words = `serve --engine kubernetes --home /run/faulty --port 0 --kubernetes-url ${cluster.url}`;
  const more = `--kubernetes-account ${account} --pod-images base=${image} --pod-template ${template}`;
  return runMain(`${words} ${more}`, { SANDBOX_MCP_API_KEY: apiKey });
}

/** A place that no node is: the scheduler says so, and so does the service. */
async function checkNowhere(world: World): Promise<void> {
  await world.check("placement: a create that no node takes is told why", async () => {
    const file = join(world.directory, "nowhere.yaml");
    writeFileSync(file, NOWHERE);
    await using front = world.startFront("placed-nowhere", {}, { template: file, pool: 0 });
    await front.ready();
    const beganMs = performance.now();
    const reply = await fetch(`${front.url}/v2/sandboxes`, {
      method: "POST",
      headers: { "x-api-key": world.apiKey, "content-type": "application/json" },
      body: JSON.stringify({ templateID: "base" }),
    });
    const text = await reply.text();
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
    if (reply.status !== 504 || !/node affinity\/selector/.test(text)) {
      throw new Error(`${reply.status} ${text}`);
    }
    await eventually(() => expectNothing(world.admin));
    return `after ${seconds} s: ${text}`;
  });
}
