/** The configuration of the program: flag over environment over default, read once, frozen. */

import { isAbsolute, join, resolve } from "node:path";
import { toCluster, type ClusterConfig } from "./cluster-config.ts";
import { withoutLinks } from "./common/home-folder.ts";
import type { LogLevel } from "./common/log.ts";
import { findProxy, type OutboundProxy } from "./common/outbound-proxy.ts";
import { defaultHome, isRootless, NAMESPACE_FAULT } from "./common/privilege.ts";
import { parseFlags, type ParsedFlags } from "./flags.ts";
import { listSettings, type Given } from "./settings.ts";
import { noteUnused, sandboxSettings, type Environment } from "./unused-settings.ts";

export interface RemoteConfig {
  readonly apiKey: string;
  readonly domain: string | undefined;
  readonly apiUrl: string | undefined;
  readonly sandboxUrl: string | undefined;
  readonly proxy: OutboundProxy | undefined;
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
  /** The names of the flags that were given, not of the variables. */
  readonly flags: readonly string[];
  /** The flags and variables that were given and are read by the service that makes the sandboxes. */
  readonly sandboxSettings: readonly string[];
  readonly engine: "local" | "remote" | "kubernetes";
  /** Of the engine kubernetes. */
  readonly cluster: ClusterConfig;
  readonly remote: RemoteConfig | undefined;
  /** Absolute path. */
  readonly home: string;
  /** As it was given; undefined for the default. */
  readonly givenHome: string | undefined;
  /** Folders in which the user's shell looks for programs. */
  readonly searchPath: string;
  /** Why an ordinary user has no namespace for sandboxes; undefined when nothing is known of it. */
  readonly namespaceFault: string | undefined;
  readonly runtime: string;
  readonly requireIsolation: "gvisor" | "userns-container" | "container";
  readonly host: string;
  readonly port: number;
  /** Paths of PEM files; undefined for plain HTTP. */
  readonly tlsCert: string | undefined;
  readonly tlsKey: string | undefined;
  /** Whether `serve` makes its own certificates, by an authority in the home. */
  readonly makesCertificates: boolean;
  readonly domain: string;
  readonly apiKey: string | undefined;
  /** Undefined: 2 for `serve`, 1 for the embedded service. */
  readonly pool: number | undefined;
  readonly poolTemplates: readonly { readonly template: string; readonly size: number }[];
  readonly maxSandboxes: number;
  /** Undefined: what the shares of the other teams leave. */
  readonly maxSandboxesPerTeam: number | undefined;
  readonly limits: {
    readonly memoryMb: number;
    readonly cpus: number;
    readonly diskMb: number;
    readonly pids: number;
  };
  /** Of the disk of each new volume. */
  readonly volumeMb: number;
  /** Undefined: no store is made, and one that is there is used. */
  readonly storeGb: number | undefined;
  /** Undefined: the memory of paused sandboxes stays in their processes. */
  readonly pauseToDisk: Given["pauseToDisk"];
  readonly encryptsSnapshots: boolean;
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
    /** Undefined: that of the command. */
    readonly level: LogLevel | undefined;
    readonly file: string | undefined;
  };
  /** Figures of `serve` for a monitor. */
  readonly hasMetrics: boolean;
  /** Of a key that is made; undefined for the first team. */
  readonly team: string | undefined;
  readonly json: boolean;
  /** `off` or a file; undefined for what this machine trusts. */
  readonly ca: string | undefined;
  /** Files of certificates that the variables of this machine name. */
  readonly caFiles: readonly string[];
  /** Variables of a proxy for the processes of sandboxes. */
  readonly proxy: Readonly<Record<string, string>>;
  /** Whether a service builds the template base by itself. */
  readonly buildsBase: boolean;
  /** What builds of templates may reach; undefined for what sandboxes may, empty for nothing. */
  readonly buildEgress: readonly string[] | undefined;
  /** Of `template build`: the Dockerfile. */
  readonly dockerfile: string | undefined;
  /** Whether a service builds `code-interpreter` when it is asked for. */
  readonly autoTemplates: boolean;
  readonly ifMissing: boolean;
  /** What a template that is made is called; undefined for the name of its image. */
  readonly templateName: string | undefined;
  readonly registryMirrors: readonly { readonly from: string; readonly to: string }[];
  /** Login files of docker and podman, in the order in which they count. */
  readonly registryLogins: readonly string[];
  readonly help: boolean;
  readonly version: boolean;
}

/** The configuration with what its user should know, or every fault of it at once and the exit code. */
export type LoadedConfig =
  | { readonly config: Config; readonly notes: readonly string[] }
  | { readonly faults: readonly string[]; readonly exitCode: 64 | 78 };

/**
 * Reads flags and environment. A faulty flag is a usage error (64), a faulty variable a
 * configuration error (78); all faults are named together.
 */
export function loadConfig(environment: Environment, argv: readonly string[]): LoadedConfig {
  const parsed = parseFlags(argv);
  const flagFaults = [...parsed.faults];
  const variableFaults: string[] = [];
  const given: Record<string, unknown> = {};
  const names = new Map<string, string>();
  for (const [key, setting] of listSettings()) {
    const typed = setting.flag === undefined ? undefined : parsed.values.get(setting.flag);
    const variable = setting.environment === undefined ? "" : environment[setting.environment];
    const raw = typed ?? variable;
    if (raw === undefined || (typed === undefined && isAbsent(setting.flag, raw))) continue;
    const result = setting.schema.safeParse(raw);
    const name = typed === undefined ? `${setting.environment}` : `--${setting.flag}`;
    names.set(key, name);
    if (result.success) given[key] = result.data;
    else {
      const list = typed === undefined ? variableFaults : flagFaults;
      list.push(`${name}: ${result.error.issues[0]?.message ?? "invalid"} (${setting.help})`);
    }
  }
  if (flagFaults.length > 0) return { faults: [...flagFaults, ...variableFaults], exitCode: 64 };
  if (variableFaults.length > 0) return { faults: variableFaults, exitCode: 78 };
  const known = withDefaults(given, environment, parsed);
  const config = Object.freeze({ ...known, sandboxSettings: sandboxSettings(names) });
  const [command = STDIO] = parsed.words;
  return {
    config,
    notes: noteUnused({ environment, names }, { ...config, command, isRootless: isRootless() }),
  };
}

/** Kubernetes gives Pods beside a Service called sandbox-mcp a `SANDBOX_MCP_PORT` of this form. */
const SERVICE_LINK = /^tcp:\/\/[^/\s]+:[0-9]+$/;

function isAbsent(flag: string | undefined, variable: string): boolean {
  return variable === "" || (flag === "port" && SERVICE_LINK.test(variable));
}

/** The program's own environment; nothing else in the program reads it. */
export function loadProcessConfig(): LoadedConfig {
  return loadConfig(process.env, process.argv.slice(2));
}

type ReadConfig = Omit<Config, "sandboxSettings">;

function withDefaults(given: Given, environment: Environment, line: ParsedFlags): ReadConfig {
  return {
    words: line.words,
    flags: [...line.values.keys()],
    engine: given.engine ?? (hasRemote(given, line.words) ? "remote" : "local"),
    cluster: toCluster(given, environment),
    remote:
      given.e2bApiKey === undefined
        ? undefined
        : {
            apiKey: given.e2bApiKey,
            domain: given.e2bDomain,
            apiUrl: given.e2bApiUrl,
            sandboxUrl: given.e2bSandboxUrl,
            proxy: findProxy(environment),
          },
    home: withoutLinks(resolve(given.home ?? defaultHome(environment))),
    givenHome: given.home === undefined ? undefined : withoutLinks(resolve(given.home)),
    searchPath: environment["PATH"] ?? "",
    namespaceFault: environment[NAMESPACE_FAULT],
    runtime: given.runtime ?? "auto",
    requireIsolation: given.requireIsolation ?? "userns-container",
    host: given.host ?? "127.0.0.1",
    port: given.port ?? 3490,
    tlsCert: given.tlsCert,
    tlsKey: given.tlsKey,
    makesCertificates: given.tls === "auto",
    domain: given.domain ?? "sandbox.localhost",
    apiKey: given.apiKey,
    pool: given.pool,
    poolTemplates: given.poolTemplate ?? [],
    maxSandboxes: given.maxSandboxes ?? 100,
    maxSandboxesPerTeam: given.maxSandboxesPerTeam,
    limits: {
      memoryMb: given.memoryMb ?? 512,
      cpus: given.cpus ?? 2,
      diskMb: given.diskMb ?? 2048,
      pids: given.pids ?? 512,
    },
    volumeMb: given.volumeMb ?? 2048,
    storeGb: given.storeGb,
    pauseToDisk: given.pauseToDisk,
    encryptsSnapshots: given.encryptsSnapshots ?? false,
    egress: toEgressConfig(given),
    tools: toToolsConfig(given),
    protocol: given.protocol ?? "auto",
    onExit: given.onExit,
    allowHostTemplate: given.allowHostTemplate,
    isConformance: given.isConformance ?? false,
    log: { level: given.logLevel, file: given.logFile },
    hasMetrics: given.hasMetrics ?? false,
    team: given.team,
    json: given.json ?? false,
    ca: given.ca,
    caFiles: CA_VARIABLES.flatMap((name) => environment[name] ?? []).filter((path) => path !== ""),
    proxy: toProxy(given, environment),
    buildsBase: given.buildBase !== "off",
    buildEgress: given.buildEgress?.[0] === "on" ? undefined : given.buildEgress,
    dockerfile: given.file,
    autoTemplates: given.autoTemplates === "on",
    ifMissing: given.ifMissing ?? false,
    templateName: given.templateName,
    registryMirrors: given.registryMirror ?? [],
    registryLogins: toLoginFiles(environment),
    help: given.help ?? false,
    version: given.version ?? false,
  };
}

/** A key names the service of the tools; the other commands are about this machine. */
function hasRemote({ e2bApiKey }: Given, [command = STDIO]: readonly string[]): boolean {
  return e2bApiKey !== undefined && command === STDIO;
}

const STDIO = "stdio";

const CA_VARIABLES = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] as const;
const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] as const;

/** In both spellings that programs read. A password in the machine's own variables stays outside. */
function toProxy({ proxy }: Given, environment: Environment): Record<string, string> {
  const found: Record<string, string> = {};
  if (proxy === "off") return found;
  for (const name of PROXY_VARIABLES) {
    const own = environment[name.toLowerCase()] ?? environment[name] ?? "";
    const isOwn = proxy === undefined || name === "NO_PROXY";
    const value = isOwn ? own : proxy;
    if (value === "" || (isOwn && value.includes("@"))) continue;
    found[name] = value;
    found[name.toLowerCase()] = value;
  }
  return found;
}

/** Where podman, then docker, write what a registry wants to know. */
function toLoginFiles(environment: Environment): string[] {
  const of = (name: string, path: string) => {
    const folder = environment[name] ?? "";
    return folder === "" ? [] : [join(folder, path)];
  };
  const runtime = environment["XDG_RUNTIME_DIR"] ?? "";
  // Of root without that variable, as under sudo. One that is relative is ignored, as its specification says.
  const ofRun = runtime === "" ? ["/run/containers/0/auth.json"] : [];
  return [
    ...of("REGISTRY_AUTH_FILE", ""),
    ...(isAbsolute(runtime) ? [join(runtime, "containers/auth.json")] : ofRun),
    ...of("HOME", ".config/containers/auth.json"),
    ...of("DOCKER_CONFIG", "config.json"),
    ...of("HOME", ".docker/config.json"),
  ];
}

function toToolsConfig({ toolset = "core", tools, isReadOnly = false }: Given): Config["tools"] {
  return { toolset, names: tools?.split(","), isReadOnly };
}

function toEgressConfig({ egress = "on", dns }: Given): EgressConfig | undefined {
  if (egress === "off") return undefined;
  return { namespace: egress === "on" ? undefined : egress, resolvers: dns };
}
