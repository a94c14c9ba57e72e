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
  type Setting,
} from "./setting-values.ts";
import { STORAGE_SETTINGS } from "./storage-settings.ts";

const MAX = { memoryMb: 1_048_576, cpus: 1024, pids: 1_000_000, port: 65_535 };
const MAX_SANDBOXES = 100_000;

const SETTINGS = {
  engine: {
    flag: "engine",
    environment: "SANDBOX_MCP_ENGINE",
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
    environment: "SANDBOX_MCP_HOME",
    schema: path,
    help: "directory of database, templates and snapshots",
  },
  runtime: {
    flag: "runtime",
    environment: "SANDBOX_MCP_RUNTIME",
    schema: path,
    help: "auto, runc, crun, runsc or the path of an OCI runtime",
  },
  requireIsolation: {
    flag: "require-isolation",
    environment: "SANDBOX_MCP_REQUIRE_ISOLATION",
    schema: oneOf(["gvisor", "userns-container", "container"]),
    help: "weakest isolation accepted: gvisor, userns-container or container",
  },
  host: {
    flag: "host",
    environment: "SANDBOX_MCP_HOST",
    schema: listenHost,
    help: "address that serve listens on",
  },
  port: {
    flag: "port",
    environment: "SANDBOX_MCP_PORT",
    schema: integer(0, MAX.port),
    help: "port that serve listens on; 0 for any",
  },
  tlsCert: {
    flag: "tls-cert",
    environment: "SANDBOX_MCP_TLS_CERT",
    schema: path,
    help: "serve: PEM file with the certificate, for HTTPS; with --tls-key",
  },
  tlsKey: {
    flag: "tls-key",
    environment: "SANDBOX_MCP_TLS_KEY",
    schema: path,
    help: "serve: PEM file with the key of the certificate",
  },
  tls: {
    flag: "tls",
    environment: "SANDBOX_MCP_TLS",
    schema: oneOf(["auto", "off"]),
    help: "serve: auto for HTTPS with certificates of a local authority in the home",
  },
  domain: {
    flag: "domain",
    environment: "SANDBOX_MCP_DOMAIN",
    schema: domainName,
    help: "gateway hosts are {port}-{sandboxID}.<domain>",
  },
  apiKey: {
    flag: "api-key",
    environment: "SANDBOX_MCP_API_KEY",
    schema: ownKey,
    help: "a key that serve accepts, besides those of `key create`",
  },
  pool: {
    flag: "pool",
    environment: "SANDBOX_MCP_POOL",
    schema: integer(0, MAX_POOL),
    help: "sandboxes of the template base that are kept started, for a create to take at once",
  },
  poolTemplate: {
    flag: "pool-template",
    environment: "SANDBOX_MCP_POOL_TEMPLATE",
    schema: poolShares,
    help: "the same of other templates, with their start command run: NAME=N,NAME=N",
  },
  maxSandboxes: {
    flag: "max-sandboxes",
    environment: "SANDBOX_MCP_MAX_SANDBOXES",
    schema: integer(1, MAX_SANDBOXES),
    help: "sandboxes alive at once; beyond it create answers 429",
  },
  maxSandboxesPerTeam: {
    flag: "max-sandboxes-per-team",
    environment: "SANDBOX_MCP_MAX_SANDBOXES_PER_TEAM",
    schema: integer(1, MAX_SANDBOXES),
    help: "sandboxes of one team at once; by default all but the shares of the other teams",
  },
  memoryMb: {
    flag: "memory-mb",
    environment: "SANDBOX_MCP_MEMORY_MB",
    schema: integer(128, MAX.memoryMb),
    help: "memory of each sandbox in MiB",
  },
  cpus: {
    flag: "cpus",
    environment: "SANDBOX_MCP_CPUS",
    schema: integer(1, MAX.cpus),
    help: "processors of each sandbox",
  },
  ...STORAGE_SETTINGS,
  pids: {
    flag: "pids",
    environment: "SANDBOX_MCP_PIDS",
    schema: integer(32, MAX.pids),
    help: "processes of each sandbox",
  },
  buildEgress: {
    flag: "build-egress",
    environment: "SANDBOX_MCP_BUILD_EGRESS",
    schema: buildHosts,
    help: "what template builds may reach: on, off, or names and networks A,B; by default as sandboxes",
  },
  egress: {
    flag: "egress",
    environment: "SANDBOX_MCP_EGRESS",
    schema: z.string().regex(/^(?:on|off|\/[^\s]+)$/, "expected on, off or an absolute path"),
    help: "on, off or the file of a network namespace: how sandboxes reach the internet",
  },
  dns: {
    flag: "dns",
    environment: "SANDBOX_MCP_DNS",
    schema: addresses,
    help: "name servers of sandboxes, at most 3 IPv4 addresses joined by commas",
  },
  toolset: {
    flag: "toolsets",
    environment: "SANDBOX_MCP_TOOLSETS",
    schema: oneOf(["core", "all"]),
    help: "core or all: which tools are listed",
  },
  tools: {
    flag: "tools",
    environment: "SANDBOX_MCP_TOOLS",
    schema: z.string().regex(/^[a-z_]+(,[a-z_]+)*$/, "expected names joined by commas"),
    help: "exactly these tools, names joined by commas",
  },
  isReadOnly: {
    flag: "read-only",
    environment: "SANDBOX_MCP_READ_ONLY",
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
    environment: "SANDBOX_MCP_ON_EXIT",
    schema: oneOf(["kill", "leave"]),
    help: "kill or leave: what happens at the end of stdio to the sandboxes that it made",
  },
  pauseToDisk,
  encryptsSnapshots,
  allowHostTemplate: {
    flag: "allow-host-template",
    environment: "SANDBOX_MCP_ALLOW_HOST_TEMPLATE",
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
    environment: "SANDBOX_MCP_METRICS",
    schema: flag,
    isSwitch: true,
    help: "serve: metrics for Prometheus at /metrics, for keys of the team local",
  },
  logLevel: {
    flag: "log-level",
    environment: "SANDBOX_MCP_LOG_LEVEL",
    schema: oneOf(LOG_LEVELS),
    help: LOG_LEVELS.join(", "),
  },
  logFile: {
    flag: "log-file",
    environment: "SANDBOX_MCP_LOG_FILE",
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
    environment: "SANDBOX_MCP_CA",
    schema: z.string().regex(/^(?:off|\/.*)$/s, "expected off or an absolute path"),
    help: "off or a PEM file: certificates that sandboxes trust besides the public ones",
  },
  proxy: {
    flag: "proxy",
    environment: "SANDBOX_MCP_PROXY",
    schema: z.union([z.literal("off"), webUrl], "expected off or a URL of http or https"),
    help: "off or a URL: the HTTP proxy of sandboxes; by default this machine's",
  },
  buildBase: {
    flag: "build-base",
    environment: "SANDBOX_MCP_BUILD_BASE",
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
    environment: "SANDBOX_MCP_AUTO_TEMPLATES",
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
    environment: "SANDBOX_MCP_REGISTRY_MIRROR",
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
  return Object.entries<Setting>(SETTINGS);
}
