/** The file of `--pod-template`: YAML and JSON say the same; whatever else is refused with its place. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPodTemplate } from "../../../src/commands/serve/pod-template-file.ts";
import { loadConfig } from "../../../src/config.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const TEMPLATE = {
  metadata: { labels: { team: "research" } },
  spec: {
    nodeSelector: { pool: "sandboxes" },
    tolerations: [{ key: "sandboxes", operator: "Exists" }],
    containers: [{ name: "sandbox", resources: { requests: { cpu: "1", memory: "128Mi" } } }],
  },
};

const YAML = `# Placement
metadata:
  labels: &labels { team: research }
spec:
  nodeSelector:
    pool: sandboxes
  tolerations:
    - { key: sandboxes, operator: Exists }
  containers:
    - name: sandbox
      resources: { requests: { cpu: 1, memory: 128Mi } }
`;

async function read(text: string | Buffer) {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "pod.yaml");
  await writeFile(path, text);
  const words = ["serve", "--engine", "kubernetes", "--pod-template", path];
  const loaded = loadConfig({}, words);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
  return await readPodTemplate(loaded.config);
}

test("YAML and JSON say the same, and no file says nothing", async () => {
  expect(await read(YAML)).toEqual(TEMPLATE);
  expect(await read(JSON.stringify(TEMPLATE))).toEqual(TEMPLATE);
  expect(await read("{ metadata: {}, spec: {} }")).toEqual({ metadata: {}, spec: {} });
  expect(await read(`---\n${JSON.stringify(TEMPLATE, null, 2)}\n`)).toEqual(TEMPLATE);
  const loaded = loadConfig({}, ["serve", "--engine", "kubernetes"]);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
  expect(await readPodTemplate(loaded.config)).toEqual({});
});

/** Nine lists of nine of the one before it. */
const BOMB = [
  "a: &a [x, x, x, x, x, x, x, x, x]",
  ..."bcdefgh".split("").map((name, index) => {
    const before = "abcdefg"[index];
    return `${name}: &${name} [${Array.from({ length: 9 }, () => `*${before}`).join(", ")}]`;
  }),
].join("\n");

test.for([
  { what: "nothing", text: "", fault: "it has 0 documents" },
  { what: "a text", text: "sandboxes", fault: "expected object" },
  { what: "no YAML", text: "spec:\n  nodeSelector: {pool", fault: "at line 2" },
  { what: "a tab", text: "spec:\n\tnodeSelector: {}\n", fault: "at line 2" },
  { what: "a key twice", text: "spec: {}\nspec: {}\n", fault: "unique at line 2" },
  { what: "a key that is a list", text: "? [a]\n: b\n", fault: "at line 1" },
  { what: "two documents", text: "spec: {}\n---\nspec: {}\n", fault: "it has 2 documents" },
  { what: "an unknown tag", text: "spec: !object {}\n", fault: "Unresolved tag" },
  { what: "no such anchor", text: "spec: *a\n", fault: "alias" },
  { what: "an expansion", text: BOMB, fault: "alias" },
  { what: "a field that is refused", text: "spec: {hostNetwork: true}", fault: "hostNetwork" },
  { what: "half JSON", text: '{"spec": ', fault: "at line 1" },
  { what: "too much", text: `# ${"x".repeat(262_144)}`, fault: "it exceeds 262144 bytes" },
])("$what is refused", async ({ text, fault }) => {
  const failed = await read(text).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "failed_precondition" });
  expect(String(failed)).toContain(fault);
  expect(String(failed)).toMatch(/pod template \S+pod\.yaml: [^\n]*$/);
});
