/** Words and flags that a command does not take are usage errors, in one line each. */

import { expect, test } from "vitest";
import { findCommand } from "../../../src/commands/index.ts";
import { findMisuse, takesFlag } from "../../../src/commands/program/usage.ts";
import { loadConfig } from "../../../src/config.ts";
import { listSettings } from "../../../src/settings.ts";

/** What is wrong with a command line, by its flags or by its command. */
function faultsOf(...argv: string[]): readonly string[] {
  const loaded = loadConfig({}, argv);
  if ("faults" in loaded) return loaded.faults;
  const [name = "stdio", ...words] = loaded.config.words;
  const command = findCommand(name);
  return command === undefined ? ["no command"] : findMisuse(command, words, loaded.config);
}

test.for([
  { argv: ["key", "list", "--port", "80"], fault: "--port: a flag of serve, not of key" },
  { argv: ["gc", "--json"], fault: "--json: a flag of doctor, not of gc" },
  { argv: ["--port=0"], fault: "--port: a flag of serve, not of stdio" },
  { argv: ["doctor", "--tools", "a"], fault: "--tools: a flag of serve and stdio, not of doctor" },
  {
    argv: ["template", "list", "--name", "x"],
    fault:
      "--name: a flag of template build and template pull and template import, not of template list",
  },
  {
    argv: ["template", "pull", "base", "-f", "x"],
    fault: "--file: a flag of template build, not of template pull",
  },
  {
    argv: ["template", "show", "x", "--if-missing"],
    fault: "--if-missing: a flag of template pull, not of template show",
  },
  {
    argv: ["template", "list", "--cpus", "2"],
    fault:
      "--cpus: a flag of template build and template pull and template import, not of template list",
  },
  {
    argv: ["template", "build", "--pool", "2"],
    fault: "--pool: a flag of doctor and serve and stdio, not of template",
  },
  {
    argv: ["template", "pull", "a", "--ca", "/x"],
    fault: "--ca: a flag of template build, not of template pull",
  },
  {
    argv: ["template", "build", "--allow-host-template", "on"],
    fault:
      "--allow-host-template: takes no value in a word of its own: --allow-host-template, or --allow-host-template=on",
  },
  {
    argv: ["template", "build", "--allow-host-template", "False"],
    fault:
      "--allow-host-template: takes no value in a word of its own: --allow-host-template, or --allow-host-template=False",
  },
  { argv: ["serve", "x"], fault: "x: one word too many: sandbox-mcp serve" },
  { argv: ["serve", "--", "x"], fault: "x: one word too many: sandbox-mcp serve" },
  { argv: ["stdio", "\u001b[2J"], fault: '"\\u001b[2J": one word too many: sandbox-mcp stdio' },
  {
    argv: ["key", "list", "x"],
    fault: "x: one word too many: sandbox-mcp key create|list|revoke [NAME] [--team TEAM]",
  },
  { argv: ["key", "--team", "a", "--team", "a", "list"], fault: "--team: given twice" },
  { argv: ["doctor", "--json", "--json"], fault: "--json: given twice" },
  { argv: ["serve", "--port"], fault: "--port: needs a value" },
  {
    argv: ["serve", "--home", "--metrics"],
    fault: "--home: needs a value; one that begins with a dash is written --home=VALUE",
  },
  {
    argv: ["template", "build", "-f", "-x"],
    fault: "-f: needs a value; one that begins with a dash is written --file=VALUE",
  },
  {
    argv: ["serve", "--pod-images", "base=a"],
    fault: "--pod-images: not used without --engine kubernetes",
  },
  {
    argv: ["key", "list", "--kubernetes-namespace", "a"],
    fault: "--kubernetes-namespace: not used without --engine kubernetes",
  },
  {
    argv: ["key", "create", "a", "--engine", "remote"],
    fault: "--engine remote: not an engine of key create",
  },
  {
    argv: ["template", "remove", "a", "--engine=kubernetes"],
    fault: "--engine kubernetes: not an engine of template remove",
  },
  {
    argv: ["gc", "--engine=kubernetes"],
    fault: "--engine kubernetes: not an engine of gc",
  },
  {
    argv: ["serve", "--no-metrics"],
    fault: "--no-metrics: no such flag: sandbox-mcp --help lists all",
  },
  {
    argv: ["serve", "--a\nb\u001b"],
    fault: '"--a\\nb\\u001b": no such flag: sandbox-mcp --help lists all',
  },
])("$argv → $fault", ({ argv, fault }) => {
  expect(faultsOf(...argv)).toEqual([fault]);
});

const OF_ALL = ["engine", "home", "log-level", "log-file", "help", "version"];
const OF_CLUSTER_KEYS = ["kubernetes-url", "kubernetes-namespace", "kubernetes-account"];

test.for([
  { command: "manifest", own: [] },
  { command: "gc", own: ["runtime"] },
  { command: "key", own: ["team", ...OF_CLUSTER_KEYS] },
  { command: "trust", own: ["domain"] },
])("$command, which has no sandboxes, takes $own besides the flags of all", ({ command, own }) => {
  const taken = listSettings().flatMap(([, { flag }]) =>
    flag !== undefined && takesFlag(command, flag) ? [flag] : [],
  );
  expect(taken.toSorted()).toEqual([...OF_ALL, ...own].toSorted());
});

test.for([
  { argv: ["key", "create", "--", "--name-with-dashes"] },
  { argv: ["template", "export", "a", "b"] },
  { argv: ["template", "build", "--allow-host-template", "./on"] },
  { argv: ["template", "build", "--allow-host-template=on", "on"] },
  { argv: ["template", "import", "a", "--memory-mb=256"] },
  { argv: ["template", "build", ".", "-f", "x", "--name", "n"] },
  { argv: ["trust", "install", "--domain", "a.test"] },
  { argv: ["gc", "--runtime", "crun"] },
  { argv: ["doctor", "--engine", "kubernetes", "--pod-images", "base=a"] },
  { argv: ["--home=-x", "key", "list"] },
  { argv: ["template", "build", "--file=-x"] },
  { argv: ["template", "export", "a", "b", "--engine", "kubernetes"] },
  { argv: ["--engine", "remote"] },
  { argv: ["gc", "--engine", "local"] },
])("$argv is right", ({ argv }) => {
  expect(faultsOf(...argv)).toEqual([]);
});

test.for([
  "",
  "-1",
  "+1",
  "1e3",
  "0x10",
  "1.5",
  "NaN",
  "Infinity",
  "80k",
  " 80",
  "９",
  "9".repeat(40),
])("a port of %j is refused with its bounds", (value) => {
  expect(faultsOf("serve", `--port=${value}`)).toEqual([
    "--port: expected a whole number from 0 to 65535 (port that serve listens on; 0 for any)",
  ]);
});

test("each setting says in plain words what it expects, by flag and by variable", () => {
  const rows = listSettings();
  expect(rows.length).toBeGreaterThan(40);
  const faults = rows.flatMap(([, { flag, environment, schema }]) => {
    // Long, with characters that no value has; a path may be anything.
    const bad = schema.safeParse("\u0007 ,=").success ? "" : "\u0007 ,=";
    const byFlag = flag === undefined ? [] : faultsOf("serve", `--${flag}=${bad}`);
    // An empty variable counts as absent.
    const loaded = loadConfig(environment === undefined ? {} : { [environment]: bad }, []);
    return [...byFlag, ...("faults" in loaded ? loaded.faults : [])];
  });
  expect(faults.length).toBeGreaterThan(60);
  expect(faults.filter((fault) => !/^[-\w]+: (?:expected |on and off )/.test(fault))).toEqual([]);
});

test.for(["e2b_0\n", " e2b_0", "kéy", "a\u0000"])(
  "a key %j, which no header carries, is refused",
  (key) => {
    expect(loadConfig({ SANDBOX_MCP_API_KEY: key }, [])).toMatchObject({ exitCode: 78 });
    expect(loadConfig({ E2B_API_KEY: key }, [])).toMatchObject({ exitCode: 78 });
  },
);

test.for([
  ["E2B_API_URL", "ftp://a.test"],
  ["E2B_API_URL", "file:///etc"],
  ["E2B_DOMAIN", "https://a.test"],
  ["SANDBOX_MCP_DOMAIN", "a.test:65536"],
] as const)("%s refuses %s", ([name, value]) => {
  expect(loadConfig({ [name]: value }, [])).toMatchObject({ exitCode: 78 });
});
