/** Variables and flags that do nothing, although they look as if they did. */

import { quoteName } from "./common/untrusted-text.ts";
import { KUBERNETES_SETTINGS } from "./kubernetes-settings.ts";
import { listSettings, type Given } from "./settings.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const PREFIX = "SANDBOX_MCP_";
/** What the program tells itself, and what Kubernetes tells of Services whose names begin so. */
const NO_SETTING =
  /^SANDBOX_MCP_(?:NAMESPACE_FAULT|(?:\w+_)?SERVICE_(?:HOST|PORT\w*)|(?:\w+_)?PORT(?:_[0-9]+_\w+)?)$/;
const MAX_NOTES = 8;
/** Whose sandboxes are not containers of this machine. Every other engine reads the same settings. */
const ELSEWHERE: readonly string[] = ["kubernetes", "remote"];

/** How settings were given. */
interface GivenNames {
  readonly environment: Environment;
  /** Of flags and variables, by the settings that they gave. */
  readonly names: ReadonlyMap<string, string>;
}

interface Use {
  readonly engine: string;
  readonly command: string;
  /** Of the configuration; undefined where sandboxes have loopback alone. */
  readonly egress: object | undefined;
  readonly buildEgress: readonly string[] | undefined;
  readonly buildsBase: boolean;
  readonly autoTemplates: boolean;
  /** Whether sandboxes are those of an ordinary user. */
  readonly isRootless: boolean;
}

/** A line for everything that does nothing, for the user of the command. */
export function noteUnused({ environment, names }: GivenNames, use: Use): string[] {
  const mayMeanRemote = use.command === "stdio" && !names.has("engine");
  return [
    ...noteUnknownVariables(environment),
    ...(mayMeanRemote ? noteUnusedAddresses(environment) : []),
    ...(use.engine === "kubernetes" ? noteLoneSettings(names) : noteClusterVariables(environment)),
    ...noteOtherEngine(use, names),
    ...noteVoidSettings(use, names),
  ];
}

/** A line for each name that is that of no setting. */
function noteUnknownVariables(environment: Environment): string[] {
  const known = new Set(listSettings().map(([, setting]) => setting.environment));
  return Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !known.has(name) && !NO_SETTING.test(name))
    .slice(0, MAX_NOTES)
    .map((name) => `${quoteName(name)}: no such setting, it is not used`);
}

/** A line for each address of a remote service that has no key. */
function noteUnusedAddresses(environment: Environment): string[] {
  if ((environment["E2B_API_KEY"] ?? "") !== "") return [];
  return ["E2B_DOMAIN", "E2B_API_URL", "E2B_SANDBOX_URL"]
    .filter((name) => (environment[name] ?? "") !== "")
    .map((name) => `${name}: not used without E2B_API_KEY, sandboxes run on this machine`);
}

/** A line for each variable that only the engine kubernetes reads. */
function noteClusterVariables(environment: Environment): string[] {
  return listSettings()
    .flatMap(([key, setting]) => (Object.hasOwn(KUBERNETES_SETTINGS, key) ? [setting] : []))
    .flatMap(({ environment: name }) => name ?? [])
    .filter((name) => (environment[name] ?? "") !== "")
    .map((name) => `${name}: not used without --engine kubernetes`);
}

/** Read where sandboxes are containers of this machine. */
const OF_MACHINE: readonly (keyof Given)[] = [
  "runtime",
  "pids",
  "storeGb",
  "pauseToDisk",
  "encryptsSnapshots",
  "allowHostTemplate",
  "egress",
  "dns",
  "ca",
  "proxy",
  "buildEgress",
  "buildBase",
  "autoTemplates",
  "registryMirror",
];
/** Those of a cluster outlive a front. */
const ON_EXIT = "onExit" satisfies keyof Given;
/** Read where this program makes the sandboxes, of whatever kind. */
const OF_SERVICE: readonly (keyof Given)[] = [
  "requireIsolation",
  "memoryMb",
  "cpus",
  "diskMb",
  "volumeMb",
  "pool",
  "poolTemplate",
  "maxSandboxes",
  "maxSandboxesPerTeam",
];

/** Of disk images, which an ordinary user has none of. */
const OF_ROOT: readonly (keyof Given)[] = ["storeGb", "volumeMb"];

/** Of the engine kubernetes: what is read only beside another setting. */
const COMPANIONS = [
  { key: "egressNameServers", of: "egressDenied" },
  { key: "snapshotRegistryLogin", of: "snapshotRegistry" },
  { key: "volumeAccess", of: "volumeClass" },
  { key: "volumeMb", of: "volumeClass" },
] as const;

/** A line for each that lacks the other one. */
function noteLoneSettings(names: GivenNames["names"]): string[] {
  return COMPANIONS.filter(({ key, of }) => names.has(key) && !names.has(of)).map(
    ({ key, of }) => `${names.get(key)}: not used without --${KUBERNETES_SETTINGS[of].flag}`,
  );
}

/** The settings of sandboxes that were given, as they were: another service does not read them. */
export function sandboxSettings(names: GivenNames["names"]): string[] {
  return [...OF_MACHINE, ...OF_SERVICE].flatMap((key) => names.get(key) ?? []);
}

/** A line with what the engine does not read; none for a command that does not use the engine. */
function noteOtherEngine({ engine, command }: Use, names: GivenNames["names"]): string[] {
  const isCluster = engine === "kubernetes" && ["doctor", "serve"].includes(command);
  const isRemote = engine === "remote" && command === "stdio";
  if (!isCluster && !isRemote) return [];
  const unused = isRemote
    ? sandboxSettings(names)
    : [...OF_MACHINE, ON_EXIT].flatMap((key) => names.get(key) ?? []);
  if (unused.length === 0) return [];
  const where = isRemote ? "for a remote service" : "with --engine kubernetes";
  return [`${unused.join(", ")}: not used ${where}`];
}

/** A line for each that another setting of the same service makes void. */
function noteVoidSettings(use: Use, names: GivenNames["names"]): string[] {
  const { engine, command, egress, buildEgress = [], buildsBase, autoTemplates } = use;
  const line = (key: keyof Given, of: string) =>
    names.has(key) ? [`${names.get(key)}: not used with ${of}`] : [];
  const hasTools = names.has("tools") && ["serve", "stdio"].includes(command);
  const ofTools = hasTools ? line("toolset", "--tools") : [];
  const isUsed = ["doctor", "serve", "stdio"].includes(command);
  if (ELSEWHERE.includes(engine) || !isUsed) return ofTools;
  return [
    ...ofTools,
    ...(egress === undefined ? line("dns", "--egress off") : []),
    ...(egress === undefined && buildEgress.length > 0 ? line("buildEgress", "--egress off") : []),
    ...(autoTemplates && !buildsBase ? line("autoTemplates", "--build-base off") : []),
    ...(use.isRootless ? OF_ROOT.flatMap((key) => names.get(key) ?? []) : []).map(
      (name) => `${name}: not used without root`,
    ),
  ];
}
