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

/** A line for each name that is that of no setting. */
export function noteUnknownVariables(environment: Environment): string[] {
  const known = new Set(listSettings().map(([, setting]) => setting.environment));
  return Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !known.has(name) && !NO_SETTING.test(name))
    .slice(0, MAX_NOTES)
    .map((name) => `${quoteName(name)}: no such setting, it is not used`);
}

/** A line for each address of a remote service that has no key. */
export function noteUnusedAddresses(environment: Environment): string[] {
  if ((environment["E2B_API_KEY"] ?? "") !== "") return [];
  return ["E2B_API_URL", "E2B_SANDBOX_URL"]
    .filter((name) => (environment[name] ?? "") !== "")
    .map((name) => `${name}: not used without E2B_API_KEY, sandboxes run on this machine`);
}

/** A line for each variable that only the engine kubernetes reads. */
export function noteClusterVariables(environment: Environment): string[] {
  return Object.values(KUBERNETES_SETTINGS)
    .map(({ environment: name }) => name)
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

/**
 * A line with what the engine does not read; none for a command that does not use the engine.
 * @param names how each setting was given
 */
export function noteOtherEngine(
  { engine, command }: { readonly engine: string; readonly command: string },
  names: ReadonlyMap<string, string>,
): string[] {
  const isCluster = engine === "kubernetes" && ["doctor", "serve"].includes(command);
  const isRemote = engine === "remote" && command === "stdio";
  if (!isCluster && !isRemote) return [];
  const keys = isRemote ? [...OF_MACHINE, ...OF_SERVICE] : OF_MACHINE;
  const unused = keys.flatMap((key) => names.get(key) ?? []);
  if (unused.length === 0) return [];
  const where = isRemote ? "for a remote service" : "with --engine kubernetes";
  return [`${unused.join(", ")}: not used ${where}`];
}
