/** The chart as Helm renders it, and what its tests give it. */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "../../../src/common/schema.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
export const CHART: string = join(ROOT, "deploy/chart");
export const MANIFESTS: string = join(ROOT, "deploy/kubernetes/sandbox-mcp.yaml");
/** Renders the plain manifests; its argument is Helm. */
const RENDER_MANIFESTS = join(ROOT, "scripts/kubernetes-manifests.sh");

/** Values that are set beside the default ones, as `--set` takes them. */
export const VALUES: readonly (readonly string[])[] = [
  [],
  ["ingress.enabled=true", "ingress.tlsSecret=tls", "ingress.className=nginx"],
  ["networkPolicy.nameServers={10.96.0.10}", "podTemplate.spec.runtimeClassName=gvisor"],
  ["networkPolicy.enabled=false", "nodeSelector.pool=fronts", "pool=0"],
  ["snapshots.registry=registry.example.com/team/snapshots", "snapshots.loginSecret=login"],
  ["volumes.storageClass=shared", "volumes.accessMode=ReadWriteOnce"],
];

const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});

export type Manifest = z.infer<typeof objectSchema>;

/** As Kubernetes reads them, to which `n` and `yes` are no strings. */
export function readManifests(text: string): Manifest[] {
  return parseAllDocuments(text, { version: "1.1" })
    .map((document): unknown => document.toJS())
    .filter((value) => value !== null)
    .map((value) => objectSchema.parse(value));
}

export const plainManifests = (): Manifest[] => readManifests(readFileSync(MANIFESTS, "utf8"));

export function renderManifests(helm: string): string {
  return execFileSync(RENDER_MANIFESTS, [helm], { encoding: "utf8" });
}

export interface Rendering {
  readonly release: string;
  readonly namespace: string;
  /** Further words of the command. */
  readonly words?: readonly string[];
}

/** @throws Error with what Helm says of values that it refuses */
export function renderChart(helm: string, { release, namespace, words = [] }: Rendering): string {
  const command = ["template", release, CHART, "-n", namespace, "--kube-version", "1.36.0"];
  return execFileSync(helm, [...command, ...words], { encoding: "utf8", stdio: "pipe" });
}

export function toSets(values: readonly string[]): string[] {
  return values.flatMap((value) => ["--set", value]);
}

/** What the Role among these objects grants, as `RIGHTS` lists it; verbs in order. */
export function rightsOf(objects: readonly Manifest[]): unknown {
  const role = Object(objects.find(({ kind }) => kind === "Role"));
  return role.rules.flatMap((rule: Record<string, string[]>) =>
    (rule["resources"] ?? []).map((resource) => ({
      group: rule["apiGroups"]?.join(),
      resource,
      verbs: rule["verbs"]?.toSorted(),
      ...(rule["resourceNames"] && { name: rule["resourceNames"].join() }),
    })),
  );
}
