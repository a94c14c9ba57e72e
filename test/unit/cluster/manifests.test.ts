/** The plain manifests: what they grant, what they start, and that the program takes its flags. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { labelsOf } from "../../../src/cluster/egress-policy.ts";
import { RIGHTS } from "../../../src/cluster/probe/probe.ts";
import { loadConfig } from "../../../src/config.ts";
import { BLOCKED_NETWORKS } from "../../../src/engine/network/egress.ts";
import { POD_PORT } from "../../../src/wire/pod-listener.ts";
import { plainManifests, rightsOf } from "../../support/cluster/chart.ts";

const DEPLOY = resolve(import.meta.dirname, "../../../deploy");
const text = readFileSync(join(DEPLOY, "kubernetes/sandbox-mcp.yaml"), "utf8");
const all = parseAllDocuments(text).map((document) => Object(document.toJS()));
const objects = new Map(all.map((object) => [String(object.kind), object]));
const policies = new Map(
  all
    .filter(({ kind }) => kind === "NetworkPolicy")
    .map(({ metadata, spec }) => [String(metadata.name), spec]),
);

test("they are rendered from the chart as it is", () => {
  const chart = join(DEPLOY, "chart");
  const templates = readdirSync(join(chart, "templates")).toSorted();
  expect(templates.every((name) => name.endsWith(".yaml"))).toBe(true);
  const hash = createHash("sha256");
  for (const name of [
    "Chart.yaml",
    "values.yaml",
    ...templates.map((each) => `templates/${each}`),
  ]) {
    hash.update(readFileSync(join(chart, name)));
  }
  // If not: scripts/kubernetes-manifests.sh renders them.
  expect(text.split("\n", 1)[0]).toBe(`# of the chart sha256:${hash.digest("hex")}`);
});

test("every kind of the chart is there, once but for policies", () => {
  expect(all.length).toBe(objects.size + policies.size - 1);
  expect([...objects.keys()].toSorted()).toEqual([
    "ConfigMap",
    "Deployment",
    "Namespace",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
  ]);
});

test("fronts get no variables of Services, whose names are those of settings", () => {
  expect(Object(objects.get("Deployment")).spec.template.spec.enableServiceLinks).toBe(false);
});

test("sandboxes without rules reach none of the networks that no rule opens", () => {
  const [{ to }] = Object(policies.get("sandbox-mcp-egress")).egress;
  const [{ ipBlock }] = to;
  expect(ipBlock.cidr).toBe("0.0.0.0/0");
  expect(ipBlock.except).toEqual([...BLOCKED_NETWORKS]);
});

test("the Role grants what a front does, and no more", () => {
  expect(rightsOf(plainManifests())).toEqual(
    RIGHTS.map((right) => ({ ...right, verbs: right.verbs.toSorted() })),
  );
});

test("the namespace enforces the level that sandboxes need", () => {
  expect(objects.get("Namespace").metadata.labels).toMatchObject({
    "pod-security.kubernetes.io/enforce": "baseline",
  });
});

test("fronts run without privileges, with flags that the program knows", () => {
  const { spec } = objects.get("Deployment").spec.template;
  const [front] = spec.containers;
  expect(spec.securityContext).toMatchObject({ runAsNonRoot: true });
  expect(front.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  const [{ name }] = front.env;
  const loaded = loadConfig({ [name]: "key" }, front.args);
  expect(loaded).toMatchObject({
    config: { engine: "kubernetes", apiKey: "key", cluster: { images: [{ name: "base" }] } },
  });
});

test("into sandboxes leads the daemon's port alone, from fronts alone", () => {
  const spec = policies.get("sandbox-mcp-sandboxes");
  expect(spec.policyTypes).toEqual(["Ingress"]);
  expect(spec.ingress).toEqual([
    {
      from: [{ podSelector: objects.get("Deployment").spec.selector }],
      ports: [{ protocol: "TCP", port: POD_PORT }],
    },
  ]);
});

test("out of sandboxes lead the rules of all, or those of their own and nothing else", () => {
  const [common, own] = ["egress", "own-egress"].map((name) => policies.get(`sandbox-mcp-${name}`));
  expect([common.policyTypes, own.policyTypes, own.egress]).toEqual([
    ["Egress"],
    ["Egress"],
    undefined,
  ]);
  const keyOf = ({ podSelector }: typeof own) => podSelector.matchExpressions.at(-1);
  const key = Object.keys(labelsOf("i1"))[0];
  expect(keyOf(common)).toEqual({ key, operator: "DoesNotExist" });
  expect(keyOf(own)).toEqual({ key, operator: "Exists" });
  const [front] = objects.get("Deployment").spec.template.spec.containers;
  const loaded = loadConfig({}, front.args);
  const { except } = common.egress[0].to[0].ipBlock;
  const denied: readonly string[] = Object(loaded).config.cluster.egress.denied;
  expect(denied).toContain("10.0.0.0/8");
  expect(except).toEqual(expect.arrayContaining([...denied]));
});

test("the chart has the version of the program", () => {
  const chart = parse(readFileSync(join(DEPLOY, "chart/Chart.yaml"), "utf8"));
  const { version } = JSON.parse(readFileSync(join(DEPLOY, "../package.json"), "utf8"));
  expect([chart.version, chart.appVersion]).toEqual([version, version]);
});
