/** The chart: rendered, equal to the plain manifests, and accepted by the API server field by field. */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import type { ClusterApi } from "../../../src/cluster/api.ts";
import { z } from "../../../src/common/schema.ts";
import type { World } from "../world.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const MANIFESTS = join(ROOT, "deploy/kubernetes/sandbox-mcp.yaml");

const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});

type Manifest = z.infer<typeof objectSchema>;

export function readManifests(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document): unknown => document.toJS())
    .filter((value) => value !== null)
    .map((value) => objectSchema.parse(value));
}

export const plainManifests = (): Manifest[] => readManifests(readFileSync(MANIFESTS, "utf8"));

const PLURALS: Readonly<Record<string, string>> = {
  NetworkPolicy: "networkpolicies",
  Ingress: "ingresses",
};

/** Creates an object; with `try` the API server checks it and keeps nothing. */
export async function createManifest(
  api: ClusterApi,
  manifest: Manifest,
  mode: "try" | "keep",
): Promise<void> {
  const { apiVersion, kind, metadata } = manifest;
  const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const plural = PLURALS[kind] ?? `${kind.toLowerCase()}s`;
  const place = kind === "Namespace" ? "" : `/namespaces/${metadata.namespace ?? api.namespace}`;
  const query = { fieldValidation: "Strict", ...(mode === "try" && { dryRun: "All" }) };
  await api.call({ method: "POST", path: `${group}${place}/${plural}`, query, body: manifest });
}

const VALUES: readonly (readonly string[])[] = [
  [],
  ["ingress.enabled=true", "ingress.tlsSecret=tls", "ingress.className=nginx"],
  ["networkPolicy.nameServers={10.96.0.10}", "podTemplate.spec.runtimeClassName=gvisor"],
  ["networkPolicy.enabled=false", "nodeSelector.pool=fronts", "pool=0"],
];

export async function runInstall(world: World): Promise<void> {
  const { admin, bin } = world;
  const helm = join(bin, "helm");
  await world.check("chart: its default values are the plain manifests", async () => {
    const script = join(ROOT, "scripts/kubernetes-manifests.sh");
    const rendered = execFileSync(script, [helm], { encoding: "utf8" });
    if (rendered !== readFileSync(MANIFESTS, "utf8")) throw new Error("render it again");
  });
  for (const values of VALUES) {
    await world.check(
      `chart: accepted with ${values.join(" ") || "its default values"}`,
      async () => {
        const sets = values.flatMap((value) => ["--set", value]);
        const words = ["template", "trial", join(ROOT, "deploy/chart"), "-n", admin.namespace];
        const text = execFileSync(helm, [...words, "--kube-version", "1.36.0", ...sets], {
          encoding: "utf8",
        });
        const manifests = readManifests(text);
        for (const manifest of manifests) await createManifest(admin, manifest, "try");
        return `${manifests.length} objects`;
      },
    );
  }
}
