/** Variables of the environment that do nothing, although they look as if they did. */

import { quoteName } from "./common/untrusted-text.ts";
import { KUBERNETES_SETTINGS } from "./kubernetes-settings.ts";
import { listSettings } from "./settings.ts";

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
