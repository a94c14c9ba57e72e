/** The chart installed for real: fronts as Pods without privileges, and a sandbox through each. */

import { chmodSync, cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { readManifests, renderChart } from "../../support/cluster/chart.ts";
import { addLayer, pushImage } from "../cluster/images.ts";
import { eventually, expectNothing, type World } from "../world.ts";
import { clientOf } from "./faults.ts";
import { createManifest } from "./install.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const RELEASE = "chart";
const START_MS = 60_000;
/** Without a proxy for services the address of the API server is that of the node. */
const API_URL = "https://192.0.2.2:6443";

export async function runDeployment(world: World): Promise<void> {
  let addresses: string[] = [];
  await world.check("chart: installed, both fronts are ready", async () => {
    await install(world);
    addresses = await eventually(() => readyFronts(world), START_MS);
    return addresses.join(", ");
  });
  await world.check("chart: a sandbox of one front is used and killed at the other", async () => {
    const [first = "", second = ""] = addresses.map((address) => `http://${address}:3490`);
    const made = await Sandbox.create(clientOf(first, world.apiKey));
    const seen = await Sandbox.connect(made.sandboxId, clientOf(second, world.apiKey));
    const { stdout } = await seen.commands.run("id -un");
    if (stdout !== "user\n") throw new Error(stdout);
    await seen.kill();
    await eventually(() => expectNothing(world.admin));
  });
}

async function install(world: World): Promise<void> {
  const { admin, apiKey, bin, directory, archive } = world;
  const tree = join(directory, "front-tree");
  const home = join(tree, "usr/local/lib/sandbox-mcp");
  mkdirSync(home, { recursive: true });
  mkdirSync(join(tree, "usr/local/bin"));
  cpSync(join(ROOT, "dist"), join(home, "dist"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(home, "package.json"));
  const program = join(tree, "usr/local/bin/sandbox-mcp");
  writeFileSync(program, '#!/bin/sh\nexec node /usr/local/lib/sandbox-mcp/dist/main.js "$@"\n');
  chmodSync(program, 0o755);
  const image = pushImage(`oci:${addLayer(archive, tree, directory)}`, "front:1");
  const secret = { "api-key": Buffer.from(apiKey).toString("base64") };
  const metadata = { name: "sandbox-mcp-api-key" };
  await admin.call({ method: "POST", path: "secrets", body: { metadata, data: secret } });
  const podTemplate = JSON.stringify({
    spec: { containers: [{ name: "sandbox", resources: { requests: REQUESTS } }] },
  });
  const values = {
    image,
    templates: { base: world.image },
    pool: 1,
    podTemplate: JSON.parse(podTemplate),
    extraArgs: [`--kubernetes-url=${API_URL}`],
    resources: { requests: { cpu: "10m", memory: "64Mi" }, limits: { memory: "512Mi" } },
  };
  const file = join(directory, "values.json");
  writeFileSync(file, JSON.stringify(values));
  const text = renderChart(join(bin, "helm"), {
    release: RELEASE,
    namespace: admin.namespace,
    words: ["--values", file],
  });
  for (const manifest of readManifests(text)) await createManifest(admin, manifest, "keep");
}

const REQUESTS = { cpu: "10m", memory: "32Mi", "ephemeral-storage": "0" };

const podsSchema = z.object({
  items: z.array(
    z.object({
      status: z.object({
        podIP: z.string().optional(),
        conditions: z.array(z.object({ type: z.string(), status: z.string() })).optional(),
      }),
    }),
  ),
});

/** @throws Error with what the API server reports, until both are ready. */
async function readyFronts({ admin }: World): Promise<string[]> {
  const labelSelector = `app.kubernetes.io/instance=${RELEASE}`;
  const reply = await admin.call({ method: "GET", path: "pods", query: { labelSelector } });
  const ready = podsSchema.parse(reply).items.flatMap(({ status: { podIP, conditions = [] } }) => {
    const isReady = conditions.some(({ type, status }) => type === "Ready" && status === "True");
    return isReady && podIP !== undefined ? [podIP] : [];
  });
  if (ready.length === 2) return ready;
  throw new Error(logsOf(RELEASE));
}

/** The last lines that containers of Pods with this name have written. */
function logsOf(name: string): string {
  const files = globSync(`/var/log/pods/*_${name}-*/*/*.log`);
  return files.map((file) => readFileSync(file, "utf8").slice(-1_500)).join("\n");
}
