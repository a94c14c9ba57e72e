/** The chart: rendered, equal to the plain manifests, and accepted by the API server field by field. */

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ClusterApi } from "../../../src/cluster/api/api.ts";
import {
  MANIFESTS,
  readManifests,
  renderChart,
  renderManifests,
  toSets,
  VALUES,
  type Manifest,
} from "../../support/cluster/chart.ts";
import { frontObjects } from "../../support/cluster/front-objects.ts";
import type { World } from "../world.ts";

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

/** Decoded by the types of a release, where an unknown field is a fault. */
function decodeStrictly(program: string, text: string): string {
  const { status, stdout, stderr } = spawnSync(program, { input: text, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return `${stdout.trim()} objects`;
}

/** Programs of several releases: an object of the chart or of a front has no field that one lacks. */
async function checkSchemas(world: World): Promise<void> {
  const { bin } = world;
  const programs = readdirSync(bin).filter((name) => name.startsWith("strict-"));
  await world.check("schemas: releases to check against", async () => {
    if (programs.length < 3) throw new Error(programs.join(" "));
    return programs.join(" ");
  });
  const objects = frontObjects().map((object) => JSON.stringify(object));
  for (const program of programs) {
    const path = join(bin, program);
    await world.check(`${program}: finds an unknown field`, async () => {
      const input = "apiVersion: v1\nkind: Pod\nspec: { hostUser: false }\n";
      const { status, stderr } = spawnSync(path, { input, encoding: "utf8" });
      if (status !== 1 || !stderr.includes("hostUser")) throw new Error(`it passes: ${stderr}`);
    });
    await world.check(`${program}: objects of fronts`, async () =>
      decodeStrictly(path, objects.join("\n---\n")),
    );
    for (const values of VALUES) {
      const chart = values.join(" ") || "its default values";
      await world.check(`${program}: chart with ${chart}`, async () =>
        decodeStrictly(path, render(world, values)),
      );
    }
  }
}

export async function runInstall(world: World): Promise<void> {
  await checkSchemas(world);

  const { admin, bin } = world;
  await world.check("chart: its default values are the plain manifests", async () => {
    const rendered = renderManifests(join(bin, "helm"));
    if (rendered !== readFileSync(MANIFESTS, "utf8")) throw new Error("render it again");
  });
  for (const values of VALUES) {
    await world.check(
      `chart: accepted with ${values.join(" ") || "its default values"}`,
      async () => {
        const manifests = readManifests(render(world, values));
        for (const manifest of manifests) await createManifest(admin, manifest, "try");
        return `${manifests.length} objects`;
      },
    );
  }
}

function render({ admin, bin }: World, values: readonly string[]): string {
  const { namespace } = admin;
  return renderChart(join(bin, "helm"), {
    release: "trial",
    namespace,
    words: toSets(values),
  });
}
