/** The chart as Helm renders it: valid objects for each set of values, and none for bad ones. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { RIGHTS } from "../../../src/cluster/probe/probe.ts";
import { loadConfig } from "../../../src/config.ts";
import {
  CHART,
  MANIFESTS,
  readManifests,
  renderChart,
  renderManifests,
  rightsOf,
  toSets,
  VALUES,
  type Manifest,
} from "../../support/cluster/chart.ts";
import { frontObjects } from "../../support/cluster/front-objects.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { findChartTools } from "../../support/test-tools.ts";

const NAMESPACE = "sandboxes";
const RELEASE = "trial";
const POLICY = "NetworkPolicy";
const RELEASES = ["1.33", "1.34", "1.35", "1.36", "1.37"];
/** What ends a plain string of YAML, a quoted one, a line, a list, or a template. */
const HOSTILE = [
  "a: b",
  "a #b",
  'a"b',
  "a\nb: c",
  "a'b",
  "- a",
  "{a",
  "*a",
  "yes",
  "n",
  "1e3",
  "0x1",
  "1_000",
  "~",
  "{{ .Values }}",
  "\t",
];
const KINDS: Readonly<Record<string, string>> = {
  v1: "io.k8s.api.core.v1",
  "apps/v1": "io.k8s.api.apps.v1",
  "networking.k8s.io/v1": "io.k8s.api.networking.v1",
  "policy/v1": "io.k8s.api.policy.v1",
  "rbac.authorization.k8s.io/v1": "io.k8s.api.rbac.v1",
};

const { helm, schemas, reason } = findChartTools();
const validators = new Map([...schemas].map(([release, path]) => [release, createValidator(path)]));

function domainOf(sets: readonly string[]): string | undefined {
  const words = toSets(sets);
  const text = renderChart(helm, { release: RELEASE, namespace: NAMESPACE, words });
  return /--domain=[^"]+/.exec(text)?.[0];
}

describe.skipIf(reason !== "")(`the chart ${reason}`, () => {
  test("its default values are the plain manifests", () => {
    expect(renderManifests(helm)).toBe(readFileSync(MANIFESTS, "utf8"));
  });

  test("behind its Ingress clients are told the port of that, not of the fronts", () => {
    const sets = ["domain=box.example.com", "ingress.enabled=true"];
    expect(domainOf([...sets, "ingress.tlsSecret=tls"])).toBe("--domain=box.example.com:443");
    expect(domainOf(["domain=box.example.com"])).toBe("--domain=box.example.com");
  });

  test("schemas of each release find unknown, missing and wrong fields", () => {
    expect([...validators.keys()].toSorted()).toEqual(RELEASES);
    const containers = [{ name: "a", image: "b" }];
    for (const faultsOf of validators.values()) {
      expect(faultsOf(toPod({ containers, hostUsers: false }))).toEqual([]);
      const bad = [{ containers, hostUser: false }, { hostUsers: false }];
      for (const spec of [...bad, { containers, hostUsers: "false" }]) {
        expect(faultsOf(toPod(spec))).not.toEqual([]);
      }
    }
  });

  test.for(VALUES.map((values) => ({ values, title: values.join(" ") || "no values" })))(
    "with $title its objects are valid and its own",
    ({ values }) => {
      const objects = render(toSets(values));
      for (const [release, faultsOf] of validators) {
        const faults = objects.flatMap((object) => faultsOf(object));
        expect({ release, faults }).toEqual({ release, faults: [] });
      }
      const names = objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
      expect(names).toEqual([...new Set(names)]);
      const places = new Set(objects.map(({ metadata }) => metadata.namespace));
      expect([...places]).toEqual([NAMESPACE]);
      const rights = RIGHTS.map((right) => ({ ...right, verbs: right.verbs.toSorted() }));
      expect(rightsOf(objects)).toEqual(rights);
      const loaded = loadConfig({}, argumentsOf(objects));
      expect(loaded).toMatchObject({ config: { engine: "kubernetes" } });
    },
  );

  test("objects that fronts create are valid", () => {
    for (const [release, faultsOf] of validators) {
      const faults = frontObjects().flatMap((object) => faultsOf(object));
      expect({ release, faults }).toEqual({ release, faults: [] });
    }
  });

  test.each(["n", "123", "1e3"])("a release and a namespace named %s keep their names", (name) => {
    const text = renderChart(helm, { release: name, namespace: name });
    const names = readManifests(text).map(({ metadata }) => metadata);
    expect(names.map(({ namespace }) => namespace)).toEqual(names.map(() => name));
    expect(names.every((each) => each.name.startsWith(name))).toBe(true);
  });

  test("values add and remove what they name", () => {
    expect(kindsWith().filter((kind) => kind === POLICY)).toHaveLength(3);
    expect(kindsWith("networkPolicy.enabled=false")).not.toContain(POLICY);
    expect(kindsWith()).not.toContain("Ingress");
    expect(kindsWith("ingress.enabled=true")).toContain("Ingress");
    expect(flagsWith()).not.toMatch(/--snapshot-registry|--volume-class/);
    expect(flagsWith("snapshots.registry=r/s")).toContain("--snapshot-registry=r/s");
    expect(flagsWith("volumes.storageClass=shared")).toContain("--volume-class=shared");
  });

  test("a further flag replaces that of the chart, since none is taken twice", async () => {
    const extraArgs = ["--host=::", "--pool", "7", "--metrics", "--log-level=debug"];
    const flags = argumentsOf(await renderFile({ extraArgs }));
    expect(flags.slice(-extraArgs.length)).toEqual(extraArgs);
    const config = { host: "::", pool: 7, log: { level: "debug" } };
    expect(loadConfig({}, flags)).toMatchObject({ config });
  });

  test("numbers of any size are written out", async () => {
    const volumes = { storageClass: "shared", sizeMb: 16_777_216 };
    const objects = await renderFile({ maxSandboxes: 10_000, diskMb: 1_048_576, volumes });
    const flags = ["--max-sandboxes=10000", "--disk-mb=1048576", "--volume-mb=16777216"];
    expect(argumentsOf(objects)).toEqual(expect.arrayContaining(flags));
  });

  test("strings stay strings, whatever they contain", async () => {
    const paths = stringPaths(parse(readFileSync(join(CHART, "values.yaml"), "utf8")));
    expect(paths.length).toBeGreaterThan(10);
    const give = async (value: string) => {
      const trees = paths.map((path) => toTree(path, value));
      return renderFile([EVERYTHING, ...trees].reduce<object>(merge, {}));
    };
    const shape = shapeOf(await give("plain"));
    for (const value of HOSTILE) {
      const objects = await give(value);
      // A flag has its name before it, and the list of templates is one.
      const count = stringsOf(objects).join("\0").split(value).length - 1;
      expect({ value, isEverywhere: count >= paths.length }).toEqual({ value, isEverywhere: true });
      expect({ value, shape: shapeOf(objects) }).toEqual({ value, shape });
    }
  });

  test.for([
    ["replica=3", /replica/],
    ["replicas=many", /replicas/],
    ["replicas=0", /replicas/],
    ["diskMb=big", /diskMb/],
    ["memoryMb=0.5", /memoryMb/],
    ["domain=", /domain/],
    ["templates=", /templates/],
    ["networkPolicy.enabled=maybe", /networkPolicy/],
    ["volumes.accessMode=Any", /accessMode/],
    ["snapshots.registy=a", /registy/],
    ["replicas=null", /replicas/],
    ["memoryMb=null", /memoryMb/],
    ["domain=null", /domain/],
    ["networkPolicy.enabled=null", /enabled/],
    ["networkPolicy.denied=null", /missing property 'denied'/],
    ["volumes.accessMode=null", /accessMode/],
    ["volumes=null", /missing property 'volumes'/],
  ] as const)("%s is refused by its name", ([values, pattern]) => {
    expect(() => render(toSets([values]))).toThrow(pattern);
  });
});

function render(words: readonly string[]): Manifest[] {
  return readManifests(renderChart(helm, { release: RELEASE, namespace: NAMESPACE, words }));
}

/** With values as a file has them, where numbers and strings are those of YAML. */
async function renderFile(values: object): Promise<Manifest[]> {
  await using folder = await makeTempFolder();
  const file = join(folder.path, "values.json");
  writeFileSync(file, JSON.stringify(values));
  return render(["--values", file]);
}

function kindsWith(...values: string[]): string[] {
  return render(toSets(values)).map(({ kind }) => kind);
}

function flagsWith(...values: string[]): string {
  return argumentsOf(render(toSets(values))).join(" ");
}

function toPod(spec: object): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "a" }, spec };
}

/** Values with which every template is rendered. */
const EVERYTHING = {
  createNamespace: true,
  ingress: { enabled: true, className: "c", tlsSecret: "t", annotations: { a: "b" } },
  networkPolicy: { nameServers: ["10.96.0.10"] },
  snapshots: { registry: "r/s", loginSecret: "login" },
  volumes: { storageClass: "shared" },
  extraArgs: ["--metrics"],
  nodeSelector: { pool: "fronts" },
};

function createValidator(path: string): (object: unknown) => unknown[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false });
  ajv.addSchema(JSON.parse(readFileSync(path, "utf8")), "definitions");
  const compiled = new Map<string, ValidateFunction>();
  return (object) => {
    const { apiVersion, kind } = Object(object);
    const name = `${KINDS[String(apiVersion)]}.${String(kind)}`;
    const validate = compiled.get(name) ?? ajv.compile({ $ref: `definitions#/$defs/${name}` });
    compiled.set(name, validate);
    return validate(object) ? [] : (validate.errors ?? []).map((error) => ({ name, ...error }));
  };
}

function argumentsOf(objects: readonly Manifest[]): string[] {
  const deployment = Object(objects.find(({ kind }) => kind === "Deployment"));
  return deployment.spec.template.spec.containers[0].args;
}

/** Paths of all values that are strings, or lists or maps of them. */
function stringPaths(value: unknown, path = ""): string[] {
  if (typeof value === "string") return path === "volumes.accessMode" ? [] : [path];
  if (Array.isArray(value)) return path === "tolerations" ? [] : [`${path}.0`];
  if (typeof value !== "object" || value === null) return [];
  if (path === "resources" || path === "podTemplate") return [];
  const entries = Object.entries(value);
  if (path !== "" && entries.length === 0) return [`${path}.key`];
  return entries.flatMap(([key, each]) => stringPaths(each, path === "" ? key : `${path}.${key}`));
}

function toTree(path: string, value: string): object {
  const keys = path.split(".").toReversed();
  return Object(keys.reduce<unknown>(wrap, value));
}

function wrap(inner: unknown, key: string): unknown {
  return key === "0" ? [inner] : { [key]: inner };
}

function merge(left: unknown, right: unknown): object {
  if (!isMap(left) || !isMap(right)) return Object(right);
  const merged: Record<string, unknown> = { ...Object(left) };
  for (const [key, value] of Object.entries(Object(right))) {
    merged[key] = isMap(merged[key]) && isMap(value) ? merge(merged[key], value) : value;
  }
  return merged;
}

function isMap(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function stringsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [key, ...stringsOf(each)]);
}

/** The tree without its strings, which a value must not change. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => shapeOf(each));
  if (typeof value !== "object" || value === null) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shapeOf(each)]));
}
