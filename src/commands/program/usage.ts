/** Which words and flags a command takes. */

import { quoteName } from "../../common/untrusted-text.ts";
import type { Config } from "../../config.ts";
import type { Command } from "./command.ts";

const SERVICES = ["serve", "stdio"] as const;
/** Those that have sandboxes: `template` for the steps of a build, `doctor` to try one. */
const WITH_SANDBOXES = ["doctor", "serve", "stdio", "template"] as const;
/** Steps of a build take no sandbox of a pool and have no volumes. */
const FOR_CLIENTS = ["doctor", "serve", "stdio"] as const;
const CLUSTER = ["doctor", "serve"] as const;
const KEYS_OF_CLUSTER = ["doctor", "key", "serve"] as const;

/** Flags that mean nothing to the other commands; every command takes the flags that are not here. */
const FLAG_COMMANDS: Readonly<Record<string, readonly string[]>> = {
  "api-key": ["serve"],
  conformance: ["serve"],
  host: ["serve"],
  metrics: ["serve"],
  "pause-to-disk": ["serve"],
  port: ["serve"],
  tls: ["serve"],
  "tls-cert": ["serve"],
  "tls-key": ["serve"],
  "mcp-protocol": SERVICES,
  "on-exit": SERVICES,
  "read-only": SERVICES,
  tools: SERVICES,
  toolsets: SERVICES,
  "allow-host-template": WITH_SANDBOXES,
  "auto-templates": WITH_SANDBOXES,
  "build-base": WITH_SANDBOXES,
  "build-egress": WITH_SANDBOXES,
  ca: WITH_SANDBOXES,
  cpus: WITH_SANDBOXES,
  "disk-mb": WITH_SANDBOXES,
  dns: WITH_SANDBOXES,
  egress: WITH_SANDBOXES,
  "encrypt-snapshots": WITH_SANDBOXES,
  "max-sandboxes": WITH_SANDBOXES,
  "max-sandboxes-per-team": WITH_SANDBOXES,
  "memory-mb": WITH_SANDBOXES,
  pids: WITH_SANDBOXES,
  pool: FOR_CLIENTS,
  "pool-template": FOR_CLIENTS,
  proxy: WITH_SANDBOXES,
  "registry-mirror": WITH_SANDBOXES,
  "require-isolation": WITH_SANDBOXES,
  "store-gb": WITH_SANDBOXES,
  "volume-mb": FOR_CLIENTS,
  runtime: ["doctor", "gc", "serve", "stdio", "template"],
  domain: ["doctor", "serve", "stdio", "trust"],
  file: ["template"],
  "if-missing": ["template"],
  name: ["template"],
  json: ["doctor"],
  team: ["key"],
  "egress-denied": CLUSTER,
  "egress-name-servers": CLUSTER,
  "pod-images": CLUSTER,
  "pod-template": CLUSTER,
  "snapshot-registry": CLUSTER,
  "snapshot-registry-login": CLUSTER,
  "volume-access": CLUSTER,
  "volume-class": CLUSTER,
  "kubernetes-account": KEYS_OF_CLUSTER,
  "kubernetes-namespace": KEYS_OF_CLUSTER,
  "kubernetes-url": KEYS_OF_CLUSTER,
};

/** Commands, or actions of one, to which an engine means something, if only a refusal of their own; the others are about this machine. */
const ENGINE_COMMANDS: Readonly<Record<string, readonly string[]>> = {
  kubernetes: ["doctor", "key", "serve", "stdio", "template export"],
  remote: ["serve", "stdio"],
};

/** Read by the steps of a build alone. */
const OF_BUILD = [
  "allow-host-template",
  "auto-templates",
  "build-base",
  "build-egress",
  "ca",
  "disk-mb",
  "dns",
  "egress",
  "encrypt-snapshots",
  "file",
  "max-sandboxes",
  "max-sandboxes-per-team",
  "pids",
  "proxy",
  "require-isolation",
  "runtime",
  "store-gb",
] as const;

/** Of the actions of a command, those that read the flag. */
const FLAG_ACTIONS: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(OF_BUILD.map((flag) => [flag, ["build"]])),
  // They are recorded with the template.
  cpus: ["build", "pull", "import"],
  "memory-mb": ["build", "pull", "import"],
  "if-missing": ["pull"],
  name: ["build", "pull", "import"],
  "registry-mirror": ["build", "pull"],
};

export function takesFlag(command: string, flag: string): boolean {
  return FLAG_COMMANDS[flag]?.includes(command) ?? true;
}

/** Whether an action of the command reads a flag that the command takes. */
export function readsFlag({ name, actions = {} }: Command, action: string, flag: string): boolean {
  if (!takesFlag(name, flag)) return false;
  return !Object.hasOwn(actions, action) || FLAG_ACTIONS[flag]?.includes(action) !== false;
}

/** What was given to the command and is not for it, a line for each. */
export function findMisuse(
  command: Command,
  words: readonly string[],
  { flags, engine }: Pick<Config, "flags" | "engine">,
): string[] {
  const { name, usage } = command;
  const foreign = flags
    .filter((flag) => !takesFlag(name, flag))
    .map((flag) => `--${flag}: a flag of ${FLAG_COMMANDS[flag]?.join(" and ")}, not of ${name}`);
  const extra = findExtra(command, words);
  const ofCluster = flags
    .filter((flag) => takesFlag(name, flag) && engine !== "kubernetes" && isOfCluster(flag))
    .map((flag) => `--${flag}: not used without --engine kubernetes`);
  const [action = ""] = words;
  const called = Object.hasOwn(command.actions ?? {}, action) ? `${name} ${action}` : name;
  const takers = ENGINE_COMMANDS[engine];
  const isForeign =
    flags.includes("engine") && takers?.includes(name) === false && !takers.includes(called);
  const ofEngine = isForeign ? [`--engine ${engine}: not an engine of ${called}`] : [];
  const idle = findIdle(command, words, flags);
  const faults = [...foreign, ...ofEngine, ...ofCluster, ...idle];
  if (extra === undefined) return faults;
  return [...faults, `${quoteName(extra)}: one word too many: sandbox-mcp ${usage}`];
}

function isOfCluster(flag: string): boolean {
  const commands = FLAG_COMMANDS[flag];
  return commands === CLUSTER || commands === KEYS_OF_CLUSTER;
}

/** Flags that the command takes, and its action does not read. */
function findIdle(
  command: Command,
  [action = ""]: readonly string[],
  flags: readonly string[],
): string[] {
  const { name } = command;
  return flags
    .filter((flag) => takesFlag(name, flag) && !readsFlag(command, action, flag))
    .map((flag) => {
      const takers = FLAG_ACTIONS[flag]?.map((taker) => `${name} ${taker}`).join(" and ");
      return `--${flag}: a flag of ${takers}, not of ${name} ${action}`;
    });
}

/** The first word that nothing reads; an action that is not there is reported by the command. */
function findExtra({ actions }: Command, words: readonly string[]): string | undefined {
  if (actions === undefined) return words[0];
  const [action = ""] = words;
  return Object.hasOwn(actions, action) ? words[1 + (actions[action] ?? 0)] : undefined;
}
