/** Every setting of the program: flag over environment over default, read once, frozen. */

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { defaultHome } from "./common/default-home.ts";
import { LOG_LEVELS } from "./common/log.ts";
import { NAMESPACE_FAULT } from "./common/privilege.ts";
import { z } from "./common/schema.ts";

const MAX_MEMORY_MB = 1_048_576;
const MAX_CPUS = 1024;
const MAX_DISK_MB = 16_777_216;
const MAX_PIDS = 1_000_000;
const MAX_SANDBOXES = 100_000;
/** Each is some 15 MB of memory that nobody uses yet. */
const MAX_POOL = 100;
const MAX_PORT = 65_535;

const text = z.string().min(1);
const flag = z.stringbool();

function integer(min: number, max: number) {
  return z
    .string()
    .regex(/^[0-9]+$/, "expected a whole number")
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

const addresses = text.transform((list) => list.split(",")).pipe(z.array(z.ipv4()).max(3));

interface Setting {
  /** The flag without its dashes; absent for settings that only the environment gives. */
  readonly flag?: string;
  readonly environment?: string;
  readonly schema: z.ZodType;
  /** A flag without a value: naming it means true. */
  readonly isSwitch?: true;
  readonly help: string;
}

const SETTINGS = {
  engine: {
    flag: "engine",
    environment: "SANDBOX_MCP_ENGINE",
    schema: z.enum(["local", "remote"]),
    help: "local or remote: which service the tools speak to",
  },
  e2bApiKey: { environment: "E2B_API_KEY", schema: text, help: "key of the remote service" },
  e2bDomain: { environment: "E2B_DOMAIN", schema: text, help: "domain of the remote service" },
  e2bApiUrl: { environment: "E2B_API_URL", schema: z.url(), help: "its control API" },
  e2bSandboxUrl: { environment: "E2B_SANDBOX_URL", schema: z.url(), help: "its sandbox API" },
  home: {
    flag: "home",
    environment: "SANDBOX_MCP_HOME",
    schema: text,
    help: "folder of database, templates and snapshots",
  },
  runtime: {
    flag: "runtime",
    environment: "SANDBOX_MCP_RUNTIME",
    schema: text,
    help: "auto, runc, crun, runsc or the path of an OCI runtime",
  },
  requireIsolation: {
    flag: "require-isolation",
    environment: "SANDBOX_MCP_REQUIRE_ISOLATION",
    schema: z.enum(["gvisor", "userns-container", "container"]),
    help: "weakest isolation accepted: gvisor, userns-container or container",
  },
  host: {
    flag: "host",
    environment: "SANDBOX_MCP_HOST",
    schema: text,
    help: "address that serve listens on",
  },
  port: {
    flag: "port",
    environment: "SANDBOX_MCP_PORT",
    schema: integer(0, MAX_PORT),
    help: "port that serve listens on; 0 for any",
  },
  tlsCert: {
    flag: "tls-cert",
    environment: "SANDBOX_MCP_TLS_CERT",
    schema: text,
    help: "serve: PEM file with the certificate, for HTTPS; with --tls-key",
  },
  tlsKey: {
    flag: "tls-key",
    environment: "SANDBOX_MCP_TLS_KEY",
    schema: text,
    help: "serve: PEM file with the key of the certificate",
  },
  domain: {
    flag: "domain",
    environment: "SANDBOX_MCP_DOMAIN",
    schema: z.string().regex(/^[a-z0-9.-]+(:[0-9]{1,5})?$/i, "expected a domain name"),
    help: "gateway hosts are {port}-{sandboxID}.<domain>",
  },
  apiKey: {
    flag: "api-key",
    environment: "SANDBOX_MCP_API_KEY",
    schema: text,
    help: "a key that serve accepts, besides those of `key create`",
  },
  pool: {
    flag: "pool",
    environment: "SANDBOX_MCP_POOL",
    schema: integer(0, MAX_POOL),
    help: "sandboxes of the template base that are kept started, for a create to take at once",
  },
  maxSandboxes: {
    flag: "max-sandboxes",
    environment: "SANDBOX_MCP_MAX_SANDBOXES",
    schema: integer(1, MAX_SANDBOXES),
    help: "sandboxes alive at once; beyond it create answers 429",
  },
  memoryMb: {
    flag: "memory-mb",
    environment: "SANDBOX_MCP_MEMORY_MB",
    schema: integer(128, MAX_MEMORY_MB),
    help: "memory of each sandbox in MiB",
  },
  cpus: {
    flag: "cpus",
    environment: "SANDBOX_MCP_CPUS",
    schema: integer(1, MAX_CPUS),
    help: "processors of each sandbox",
  },
  diskMb: {
    flag: "disk-mb",
    environment: "SANDBOX_MCP_DISK_MB",
    schema: integer(64, MAX_DISK_MB),
    help: "writable disk of each sandbox in MiB",
  },
  pids: {
    flag: "pids",
    environment: "SANDBOX_MCP_PIDS",
    schema: integer(32, MAX_PIDS),
    help: "processes of each sandbox",
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
    schema: z.enum(["core", "all"]),
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
    schema: z.enum(["auto", "legacy"]),
    help: "auto or legacy: MCP protocol eras offered",
  },
  onExit: {
    flag: "on-exit",
    environment: "SANDBOX_MCP_ON_EXIT",
    schema: z.enum(["kill", "leave"]),
    help: "kill or leave: what happens at the end of stdio to the sandboxes that it made",
  },
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
    help: "serve: figures for Prometheus at /metrics, to keys of the team local",
  },
  logLevel: {
    flag: "log-level",
    environment: "SANDBOX_MCP_LOG_LEVEL",
    schema: z.enum(LOG_LEVELS),
    help: LOG_LEVELS.join(", "),
  },
  logFile: {
    flag: "log-file",
    environment: "SANDBOX_MCP_LOG_FILE",
    schema: text,
    help: "a second place for the log lines that go to stderr",
  },
  team: { flag: "team", schema: text, help: "key create: whose key it is; local by default" },
  json: { flag: "json", schema: flag, isSwitch: true, help: "doctor: JSON instead of text" },
  ifMissing: {
    flag: "if-missing",
    schema: flag,
    isSwitch: true,
    help: "template pull: do nothing when the template is there and up to date",
  },
  help: { flag: "help", schema: flag, isSwitch: true, help: "this text" },
  version: { flag: "version", schema: flag, isSwitch: true, help: "the version" },
} as const satisfies Record<string, Setting>;

type Given = {
  readonly [Key in keyof typeof SETTINGS]?: z.output<(typeof SETTINGS)[Key]["schema"]>;
};

export interface RemoteConfig {
  readonly apiKey: string;
  readonly domain: string | undefined;
  readonly apiUrl: string | undefined;
  readonly sandboxUrl: string | undefined;
}

export interface EgressConfig {
  /** File of the network namespace that leads outside; undefined for this process's own. */
  readonly namespace: string | undefined;
  /** Undefined: those of this machine. */
  readonly resolvers: readonly string[] | undefined;
}

export interface Config {
  /** The words that are no flags, the command first. */
  readonly words: readonly string[];
  readonly engine: "local" | "remote";
  readonly remote: RemoteConfig | undefined;
  /** Absolute path. */
  readonly home: string;
  /** Why an ordinary user has no namespace for sandboxes; undefined when nothing is known of it. */
  readonly namespaceFault: string | undefined;
  readonly runtime: string;
  readonly requireIsolation: "gvisor" | "userns-container" | "container";
  readonly host: string;
  readonly port: number;
  /** Paths of PEM files; undefined for plain HTTP. */
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  readonly domain: string;
  readonly apiKey: string | undefined;
  /** Undefined: 2 for `serve`, 1 for the embedded service. */
  readonly pool: number | undefined;
  readonly maxSandboxes: number;
  readonly limits: {
    readonly memoryMb: number;
    readonly cpus: number;
    readonly diskMb: number;
    readonly pids: number;
  };
  /** Undefined: sandboxes have loopback alone. */
  readonly egress: EgressConfig | undefined;
  readonly tools: {
    readonly toolset: "core" | "all";
    /** Exactly these, whatever their toolset. */
    readonly names: readonly string[] | undefined;
    readonly isReadOnly: boolean;
  };
  readonly protocol: "auto" | "legacy";
  /** Undefined: decided by where the sandboxes live. */
  readonly onExit: "kill" | "leave" | undefined;
  /** Undefined: on for the embedded service, off for `serve`. */
  readonly allowHostTemplate: boolean | undefined;
  /** Fixtures of the MCP conformance suite, and no key at `/mcp`. */
  readonly isConformance: boolean;
  readonly log: {
    readonly level: (typeof LOG_LEVELS)[number];
    readonly file: string | undefined;
  };
  /** Figures of `serve` for a monitor. */
  readonly hasMetrics: boolean;
  /** Of a key that is made; undefined for the first team. */
  readonly team: string | undefined;
  readonly json: boolean;
  readonly ifMissing: boolean;
  readonly help: boolean;
  readonly version: boolean;
}

/** The configuration, or every fault of it at once with the exit code that fits. */
export type LoadedConfig =
  | { readonly config: Config }
  | { readonly faults: readonly string[]; readonly exitCode: 64 | 78 };

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads flags and environment. A faulty flag is a usage error (64), a faulty variable a
 * configuration error (78); all faults are named together.
 */
export function loadConfig(environment: Environment, argv: readonly string[]): LoadedConfig {
  const parsed = parseFlags(argv);
  const flagFaults = [...parsed.faults];
  const variableFaults: string[] = [];
  const given: Record<string, unknown> = {};
  for (const [key, setting] of settings()) {
    const typed = setting.flag === undefined ? undefined : parsed.values.get(setting.flag);
    const variable = setting.environment === undefined ? "" : environment[setting.environment];
    const raw = typed ?? (variable === "" ? undefined : variable);
    if (raw === undefined) continue;
    const result = setting.schema.safeParse(raw);
    if (result.success) given[key] = result.data;
    else {
      const name = typed === undefined ? setting.environment : `--${setting.flag}`;
      const list = typed === undefined ? variableFaults : flagFaults;
      list.push(`${name}: ${result.error.issues[0]?.message ?? "invalid"} (${setting.help})`);
    }
  }
  if (flagFaults.length > 0) return { faults: [...flagFaults, ...variableFaults], exitCode: 64 };
  if (variableFaults.length > 0) return { faults: variableFaults, exitCode: 78 };
  return { config: Object.freeze(withDefaults(given, environment, parsed.words)) };
}

/** The program's own environment; nothing else in the program reads it. */
export function loadProcessConfig(): LoadedConfig {
  return loadConfig(process.env, process.argv.slice(2));
}

/** One line per flag, for the help text. */
export function describeFlags(): string[] {
  return settings()
    .filter(([, setting]) => setting.flag !== undefined)
    .map(([, setting]) => `  --${(setting.flag ?? "").padEnd(22)} ${setting.help}`);
}

function settings(): [string, Setting][] {
  return Object.entries<Setting>(SETTINGS);
}

interface ParsedFlags {
  readonly values: ReadonlyMap<string, string>;
  readonly words: readonly string[];
  readonly faults: readonly string[];
}

function parseFlags(argv: readonly string[]): ParsedFlags {
  const known = new Map(
    settings().flatMap(([, setting]) => (setting.flag ? [[setting.flag, setting]] : [])),
  );
  const options = Object.fromEntries(
    [...known].map(([name, setting]) => [
      name,
      { type: setting.isSwitch ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  const parsed = parseArgs({
    args: [...argv],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string>();
  const faults: string[] = [];
  for (const token of parsed.tokens) {
    if (token.kind !== "option") continue;
    const setting = known.get(token.name);
    if (setting === undefined) faults.push(`${token.rawName}: no such flag`);
    else if (setting.isSwitch) values.set(token.name, token.value ?? "true");
    else if (token.value === undefined) faults.push(`${token.rawName}: needs a value`);
    else values.set(token.name, token.value);
  }
  return { values, words: parsed.positionals, faults };
}

function withDefaults(given: Given, environment: Environment, words: readonly string[]): Config {
  return {
    words,
    engine: given.engine ?? (given.e2bApiKey === undefined ? "local" : "remote"),
    remote:
      given.e2bApiKey === undefined
        ? undefined
        : {
            apiKey: given.e2bApiKey,
            domain: given.e2bDomain,
            apiUrl: given.e2bApiUrl,
            sandboxUrl: given.e2bSandboxUrl,
          },
    home: resolve(given.home ?? defaultHome(environment)),
    namespaceFault: environment[NAMESPACE_FAULT],
    runtime: given.runtime ?? "auto",
    requireIsolation: given.requireIsolation ?? "userns-container",
    host: given.host ?? "127.0.0.1",
    port: given.port ?? 3490,
    tlsCert: given.tlsCert,
    tlsKey: given.tlsKey,
    domain: given.domain ?? "sandbox.localhost",
    apiKey: given.apiKey,
    pool: given.pool,
    maxSandboxes: given.maxSandboxes ?? 100,
    limits: {
      memoryMb: given.memoryMb ?? 512,
      cpus: given.cpus ?? 2,
      diskMb: given.diskMb ?? 2048,
      pids: given.pids ?? 512,
    },
    egress: toEgressConfig(given),
    tools: {
      toolset: given.toolset ?? "core",
      names: given.tools?.split(","),
      isReadOnly: given.isReadOnly ?? false,
    },
    protocol: given.protocol ?? "auto",
    onExit: given.onExit,
    allowHostTemplate: given.allowHostTemplate,
    isConformance: given.isConformance ?? false,
    log: { level: given.logLevel ?? "info", file: given.logFile },
    hasMetrics: given.hasMetrics ?? false,
    team: given.team,
    json: given.json ?? false,
    ifMissing: given.ifMissing ?? false,
    help: given.help ?? false,
    version: given.version ?? false,
  };
}

function toEgressConfig({ egress = "on", dns }: Given): EgressConfig | undefined {
  if (egress === "off") return undefined;
  return { namespace: egress === "on" ? undefined : egress, resolvers: dns };
}
