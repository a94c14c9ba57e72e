/** Every setting of the program: its flag, its variable, what it may be, and its line of help. */

import { LOG_LEVELS } from "./common/log.ts";
import { z } from "./common/schema.ts";
import { KUBERNETES_SETTINGS } from "./kubernetes-settings.ts";
import {
  addresses,
  buildHosts,
  domainName,
  encryptsSnapshots,
  flag,
  integer,
  key,
  listenHost,
  MAX_POOL,
  oneOf,
  ownKey,
  path,
  pauseToDisk,
  poolShares,
  registryMirrors,
  text,
  webUrl,
  withVariable,
  type Setting,
} from "./setting-values.ts";

const MAX = { memoryMb: 1_048_576, cpus: 1024, pids: 1_000_000, port: 65_535 };
const MAX_SANDBOXES = 100_000;
const DISK_MB = { min: 64, max: 16_777_216 };
/** With less, its reserve is a large part of it. */
const STORE_GB = { min: 8, max: 1_048_576 };

const SETTINGS = {
  engine: {
    flag: "engine",
    schema: oneOf(["local", "remote", "kubernetes"]),
    help: "local or remote: which service the tools use; doctor, key, serve, template export: also kubernetes",
  },
  e2bApiKey: { environment: "E2B_API_KEY", schema: key, help: "key of the remote service" },
  e2bDomain: {
    environment: "E2B_DOMAIN",
    schema: domainName,
    help: "domain of the remote service",
  },
  e2bApiUrl: { environment: "E2B_API_URL", schema: webUrl, help: "its control API" },
  e2bSandboxUrl: { environment: "E2B_SANDBOX_URL", schema: webUrl, help: "its sandbox API" },
  home: {
    flag: "home",
    schema: path,
    help: "directory of database, templates and snapshots",
  },
  runtime: {
    flag: "runtime",
    schema: path,
    help: "auto, runc, crun, runsc or the path of an OCI runtime",
  },
  requireIsolation: {
    flag: "require-isolation",
    schema: oneOf(["gvisor", "userns-container", "container"]),
    help: "weakest isolation accepted: gvisor, userns-container or container",
  },
  host: {
    flag: "host",
    schema: listenHost,
    help: "address that serve listens on",
  },
  port: {
    flag: "port",
    schema: integer(0, MAX.port),
    help: "port that serve listens on; 0 for any",
  },
  tlsCert: {
    flag: "tls-cert",
    schema: path,
    help: "serve: PEM file with the certificate, for HTTPS; with --tls-key",
  },
  tlsKey: {
    flag: "tls-key",
    schema: path,
    help: "serve: PEM file with the key of the certificate",
  },
  tls: {
    flag: "tls",
    schema: oneOf(["auto", "off"]),
    help: "serve: auto for HTTPS with certificates of a local authority in the home",
  },
  domain: {
    flag: "domain",
    schema: domainName,
    help: "gateway hosts are {port}-{sandboxID}.<domain>",
  },
  apiKey: {
    flag: "api-key",
    schema: ownKey,
    help: "a key that serve accepts, besides those of `key create`",
  },
  pool: {
    flag: "pool",
    schema: integer(0, MAX_POOL),
    help: "sandboxes of the template base that are kept started, for a create to take at once",
  },
  poolTemplate: {
    flag: "pool-template",
    schema: poolShares,
    help: "the same of other templates, with their start command run: NAME=N,NAME=N",
  },
  maxSandboxes: {
    flag: "max-sandboxes",
    schema: integer(1, MAX_SANDBOXES),
    help: "sandboxes alive at once; beyond it create answers 429",
  },
  maxSandboxesPerTeam: {
    flag: "max-sandboxes-per-team",
    schema: integer(1, MAX_SANDBOXES),
    help: "sandboxes of one team at once; by default all but the shares of the other teams",
  },
  memoryMb: {
    flag: "memory-mb",
    schema: integer(128, MAX.memoryMb),
    help: "memory of each sandbox in MiB",
  },
  cpus: {
    flag: "cpus",
    schema: integer(1, MAX.cpus),
    help: "processors of each sandbox",
  },
  diskMb: {
    flag: "disk-mb",
    schema: integer(DISK_MB.min, DISK_MB.max),
    help: "writable disk of each sandbox in MiB",
  },
  volumeMb: {
    flag: "volume-mb",
    schema: integer(DISK_MB.min, DISK_MB.max),
    help: "disk of each new volume in MiB",
  },
  storeGb: {
    flag: "store-gb",
    schema: integer(STORE_GB.min, STORE_GB.max),
    help: "keep disks in a file of so many GiB that shares blocks, for homes that cannot",
  },
  pids: {
    flag: "pids",
    schema: integer(32, MAX.pids),
    help: "processes of each sandbox",
  },
  buildEgress: {
    flag: "build-egress",
    schema: buildHosts,
    help: "what template builds may reach: on, off, or names and networks A,B; by default as sandboxes",
  },
  egress: {
    flag: "egress",
    schema: z.string().regex(/^(?:on|off|\/[^\s]+)$/, "expected on, off or an absolute path"),
    help: "on, off or the file of a network namespace: how sandboxes reach the internet",
  },
  dns: {
    flag: "dns",
    schema: addresses,
    help: "name servers of sandboxes, at most 3 IPv4 addresses joined by commas",
  },
  toolset: {
    flag: "toolsets",
    schema: oneOf(["core", "all"]),
    help: "core or all: which tools are listed",
  },
  tools: {
    flag: "tools",
    schema: z.string().regex(/^[a-z_]+(,[a-z_]+)*$/, "expected names joined by commas"),
    help: "exactly these tools, names joined by commas",
  },
  isReadOnly: {
    flag: "read-only",
    schema: flag,
    isSwitch: true,
    help: "only tools that change nothing",
  },
  protocol: {
    flag: "mcp-protocol",
    environment: "SANDBOX_MCP_PROTOCOL",
    schema: oneOf(["auto", "legacy"]),
    help: "auto or legacy: MCP protocol eras offered",
  },
  onExit: {
    flag: "on-exit",
    schema: oneOf(["kill", "leave"]),
    help: "kill or leave: what happens at the end of stdio to the sandboxes that it made",
  },
  pauseToDisk,
  encryptsSnapshots,
  allowHostTemplate: {
    flag: "allow-host-template",
    schema: flag,
    isSwitch: true,
    help: "serve: offer the template `host`, which shares this machine's /usr read-only",
  },
  isConformance: {
    flag: "conformance",
    schema: flag,
    isSwitch: true,
    help: "serve on loopback: offer the fixtures of the MCP conformance suite, without a key",
  },
  hasMetrics: {
    flag: "metrics",
    schema: flag,
    isSwitch: true,
    help: "serve: metrics for Prometheus at /metrics, for keys of the team local",
  },
  logLevel: {
    flag: "log-level",
    schema: oneOf(LOG_LEVELS),
    help: LOG_LEVELS.join(", "),
  },
  logFile: {
    flag: "log-file",
    schema: path,
    help: "a second place for the log lines that go to stderr",
  },
  team: {
    flag: "team",
    schema: text,
    help: "key create: the team of the key; list, revoke: its keys",
  },
  json: { flag: "json", schema: flag, isSwitch: true, help: "doctor: JSON instead of text" },
  ca: {
    flag: "ca",
    schema: z.string().regex(/^(?:off|\/.*)$/s, "expected off or an absolute path"),
    help: "off or a PEM file: certificates that sandboxes trust besides the public ones",
  },
  proxy: {
    flag: "proxy",
    schema: z.union([z.literal("off"), webUrl], "expected off or a URL of http or https"),
    help: "off or a URL: the HTTP proxy of sandboxes; by default this machine's",
  },
  buildBase: {
    flag: "build-base",
    schema: oneOf(["on", "off"]),
    help: "on or off: whether a service builds the template base by itself where it is missing or old",
  },
  file: {
    flag: "file",
    short: "f",
    schema: path,
    help: "template build: the Dockerfile; by default that of the directory",
  },
  autoTemplates: {
    flag: "auto-templates",
    schema: oneOf(["on", "off"]),
    help: "on or off: whether a service builds the template code-interpreter at its first use; default off",
  },
  ifMissing: {
    flag: "if-missing",
    schema: flag,
    isSwitch: true,
    help: "template pull base, code-interpreter: build only if it is missing or old",
  },
  templateName: {
    flag: "name",
    schema: z
      .string()
      .regex(/^[a-z0-9_-]{1,128}(?::[a-z0-9_.-]{1,128})?$/, "expected a name, or name:tag"),
    help: "template build, pull, import: the name of the template, also NAME:TAG",
  },
  registryMirror: {
    flag: "registry-mirror",
    schema: registryMirrors,
    help: "FROM=TO,FROM=TO: images of FROM are fetched from TO",
  },
  ...KUBERNETES_SETTINGS,
  help: { flag: "help", short: "h", schema: flag, isSwitch: true, help: "this text" },
  version: { flag: "version", schema: flag, isSwitch: true, help: "the version" },
} as const satisfies Record<string, Setting>;

/** The settings that were given, each as its schema reads it. */
export type Given = {
  readonly [Key in keyof typeof SETTINGS]?: z.output<(typeof SETTINGS)[Key]["schema"]>;
};

/** All of them by the name of their value. */
export function listSettings(): [string, Setting][] {
  return Object.entries<Setting>(SETTINGS).map(([name, row]) => [name, withVariable(row)]);
}
