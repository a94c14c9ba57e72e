/** The configuration: precedence, defaults, and all faults at once. */

import { expect, test } from "vitest";
import { loadConfig, type Config } from "../../src/config.ts";
import { noteUnused } from "../../src/unused-settings.ts";

function configOf(environment: Record<string, string>, argv: string[]): Config {
  const loaded = loadConfig(environment, argv);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
  return loaded.config;
}

test("a flag wins over the environment, and that over the default", () => {
  const environment = { SANDBOX_MCP_PORT: "4000", SANDBOX_MCP_HOST: "::1" };
  expect(configOf(environment, ["serve", "--port", "5000"])).toMatchObject({
    words: ["serve"],
    port: 5000,
    host: "::1",
    domain: "sandbox.localhost",
  });
});

test("defaults are those of the documentation", () => {
  expect(configOf({ SANDBOX_MCP_HOME: "/srv/x" }, [])).toEqual({
    words: [],
    flags: [],
    sandboxSettings: [],
    engine: "local",
    cluster: {
      url: undefined,
      namespace: undefined,
      accountDirectory: "/var/run/secrets/kubernetes.io/serviceaccount",
      images: [],
      podTemplate: undefined,
      egress: undefined,
      hostname: undefined,
    },
    remote: undefined,
    home: "/srv/x",
    runtime: "auto",
    requireIsolation: "userns-container",
    host: "127.0.0.1",
    port: 3490,
    makesCertificates: false,
    domain: "sandbox.localhost",
    apiKey: undefined,
    poolTemplates: [],
    maxSandboxes: 100,
    maxSandboxesPerTeam: undefined,
    limits: { memoryMb: 512, cpus: 2, diskMb: 2048, pids: 512 },
    volumeMb: 2048,
    egress: { namespace: undefined, resolvers: undefined },
    tools: { toolset: "core", names: undefined, isReadOnly: false },
    protocol: "auto",
    onExit: undefined,
    allowHostTemplate: undefined,
    hasMetrics: false,
    encryptsSnapshots: false,
    isConformance: false,
    log: { level: undefined, file: undefined },
    json: false,
    buildsBase: true,
    autoTemplates: false,
    ca: undefined,
    caFiles: [],
    proxy: {},
    givenHome: "/srv/x",
    searchPath: "",
    ifMissing: false,
    registryMirrors: [],
    registryLogins: ["/run/containers/0/auth.json"],
    help: false,
    version: false,
  });
});

test("a key of a remote service chooses the remote engine", () => {
  const remote = configOf({ E2B_API_KEY: "e2b_00", E2B_DOMAIN: "example.test" }, []);
  expect([remote.engine, remote.remote]).toEqual([
    "remote",
    {
      apiKey: "e2b_00",
      domain: "example.test",
      apiUrl: undefined,
      sandboxUrl: undefined,
      proxy: undefined,
    },
  ]);
});

test("a remote service is reached through the proxy of the machine", () => {
  const proxies = { HTTPS_PROXY: "http://no:1", https_proxy: "http://u:p@p:1", NO_PROXY: "a,b" };
  const environment = { E2B_API_KEY: "e2b_00", ...proxies };
  expect(configOf(environment, []).remote?.proxy).toEqual({ url: "http://u:p@p:1", except: "a,b" });
});

test.for(["serve", "doctor", "template", "gc"])("%s is about this machine, key or not", (word) => {
  const environment = { E2B_API_KEY: "e2b_00" };
  expect(configOf(environment, [word]).engine).toBe("local");
  expect(configOf(environment, [word, "--engine", "remote"]).engine).toBe("remote");
});

test("a proxy of the machine reaches sandboxes in both spellings, its password does not", () => {
  const machine = { https_proxy: "http://p:1", HTTP_PROXY: "http://u:p@p:1", NO_PROXY: "a,b" };
  const noProxy = { NO_PROXY: "a,b", no_proxy: "a,b" };
  expect(configOf(machine, []).proxy).toEqual({
    HTTPS_PROXY: "http://p:1",
    https_proxy: "http://p:1",
    ...noProxy,
  });
  const given = "http://u:q@q:2";
  expect(configOf(machine, ["--proxy", given]).proxy).toEqual({
    HTTP_PROXY: given,
    http_proxy: given,
    HTTPS_PROXY: given,
    https_proxy: given,
    ...noProxy,
  });
  // What the flag says counts, also where the machine's own variable says the same.
  const { HTTP_PROXY: same } = machine;
  expect(configOf(machine, ["--proxy", same]).proxy).toMatchObject({ HTTP_PROXY: same });
  expect(configOf(machine, ["--proxy", "off"]).proxy).toEqual({});
  expect(loadConfig({}, ["--proxy", "socks5://p:1"])).toMatchObject({ exitCode: 64 });
});

test("what Kubernetes tells Pods of a Service called sandbox-mcp is no port to listen on", () => {
  expect(configOf({ SANDBOX_MCP_PORT: "tcp://10.96.0.7:3490" }, ["key", "list"]).port).toBe(3490);
  expect(loadConfig({}, ["serve", "--port=tcp://10.96.0.7:80"])).toMatchObject({ exitCode: 64 });
  for (const name of ["E2B_API_URL", "SANDBOX_MCP_PROXY"]) {
    expect(loadConfig({ [name]: "tcp://10.96.0.7:80" }, [])).toMatchObject({ exitCode: 78 });
  }
});

function notesOf(environment: Record<string, string>, ...argv: string[]): readonly string[] {
  const loaded = loadConfig(environment, argv);
  return "notes" in loaded ? loaded.notes : ["no configuration"];
}

test("a variable that no setting has is noted, those of the system are not", () => {
  const environment = {
    SANDBOX_MCP_REQUIRE_ISOLATON: "gvisor",
    SANDBOX_MCP_PIDS: "100",
    SANDBOX_MCP_SERVICE_HOST: "10.96.0.7",
    SANDBOX_MCP_SERVICE_PORT_HTTP: "3490",
    SANDBOX_MCP_PORT_3490_TCP_ADDR: "10.96.0.7",
    SANDBOX_MCP_FRONTS_PORT: "tcp://10.96.0.7:3490",
    SANDBOX_MCP_NAMESPACE_FAULT: "",
    E2B_SANDBOX: "true",
  };
  expect(notesOf(environment, "serve")).toEqual([
    "SANDBOX_MCP_REQUIRE_ISOLATON: no such setting, it is not used",
  ]);
});

test.for([
  { E2B_API_URL: "http://a.test" },
  { E2B_SANDBOX_URL: "http://a.test" },
  { E2B_DOMAIN: "a.test" },
])("an address of a remote service without its key is noted where it would count: %o", (url) => {
  const [name] = Object.keys(url);
  const note = `${name}: not used without E2B_API_KEY, sandboxes run on this machine`;
  expect(notesOf(url)).toEqual([note]);
  expect(notesOf(url, "stdio")).toEqual([note]);
  expect(notesOf(url, "serve")).toEqual([]);
  expect(notesOf(url, "--engine=local")).toEqual([]);
  expect(notesOf({ ...url, E2B_API_KEY: "e2b_00" })).toEqual([]);
});

test("a variable of the engine kubernetes is noted where that engine is not chosen", () => {
  const environment = { SANDBOX_MCP_POD_IMAGES: "base=a", SANDBOX_MCP_KUBERNETES_NAMESPACE: "" };
  const note = "SANDBOX_MCP_POD_IMAGES: not used without --engine kubernetes";
  expect(notesOf(environment, "serve")).toEqual([note]);
  expect(notesOf(environment, "key", "list")).toEqual([note]);
  expect(notesOf({ ...environment, SANDBOX_MCP_ENGINE: "kubernetes" }, "serve")).toEqual([]);
});

test.for([
  {
    argv: ["serve", "--engine", "kubernetes", "--encrypt-snapshots", "--memory-mb", "512"],
    note: "--encrypt-snapshots, SANDBOX_MCP_EGRESS: not used with --engine kubernetes",
  },
  {
    argv: ["--engine", "remote", "--require-isolation", "gvisor"],
    note: "SANDBOX_MCP_EGRESS, --require-isolation: not used for a remote service",
  },
  {
    argv: ["serve", "--engine", "kubernetes", "--on-exit", "kill"],
    note: "SANDBOX_MCP_EGRESS, --on-exit: not used with --engine kubernetes",
  },
  { argv: ["serve", "--on-exit", "kill"], note: undefined },
  { argv: ["template", "list", "--engine", "kubernetes"], note: undefined },
  { argv: ["serve", "--encrypt-snapshots"], note: undefined },
])("what the engine of $argv does not read is noted", ({ argv, note }) => {
  const environment = { SANDBOX_MCP_EGRESS: "off", SANDBOX_MCP_TOOLSETS: "all" };
  expect(notesOf(environment, ...argv)).toEqual([note].flatMap((line) => line ?? []));
});

test.for([
  { flag: "--egress-name-servers=10.0.0.1", of: "--egress-denied=10.0.0.0/8" },
  { flag: "--snapshot-registry-login=/a", of: "--snapshot-registry=r.test/a" },
  { flag: "--volume-access=ReadWriteOnce", of: "--volume-class=a" },
  { flag: "--volume-mb=100", of: "--volume-class=a" },
])("$flag is noted without $of", ({ flag, of }) => {
  const words = ["serve", "--engine=kubernetes", flag];
  const [name] = flag.split("=");
  const [other] = of.split("=");
  expect(notesOf({}, ...words)).toEqual([`${name}: not used without ${other}`]);
  expect(notesOf({}, ...words, of)).toEqual([]);
});

test.for([
  { argv: ["--dns=1.1.1.1"], with: "--egress=off" },
  { argv: ["--build-egress=pypi.org"], with: "--egress=off" },
  { argv: ["--auto-templates=on"], with: "--build-base=off" },
])("$argv is noted with $with", ({ argv, with: other }) => {
  const [name] = argv.join(" ").split("=");
  const note = `${name}: not used with ${other.replace("=", " ")}`;
  for (const command of ["serve", "stdio", "doctor"]) {
    expect(notesOf({}, command, ...argv, other)).toEqual([note]);
    expect(notesOf({}, command, ...argv)).toEqual([]);
  }
  expect(notesOf({}, "key", "list", ...argv, other)).toEqual([]);
});

test("sizes of disk images are noted for an ordinary user, who has none", () => {
  const names = new Map([
    ["storeGb", "--store-gb"],
    ["volumeMb", "SANDBOX_MCP_VOLUME_MB"],
    ["memoryMb", "--memory-mb"],
  ]);
  const notesFor = (isRootless: boolean, command: string) =>
    noteUnused({ environment: {}, names }, { ...configOf({}, []), command, isRootless });
  expect(notesFor(true, "serve")).toEqual([
    "--store-gb: not used without root",
    "SANDBOX_MCP_VOLUME_MB: not used without root",
  ]);
  expect(notesFor(false, "serve")).toEqual([]);
  expect(notesFor(true, "key")).toEqual([]);
});

test.for(["local", "another"])("a setting without effect is noted for the engine %s", (engine) => {
  const use = { ...configOf({}, []), command: "serve", isRootless: false, egress: undefined };
  const names = new Map([["dns", "--dns"]]);
  expect(noteUnused({ environment: {}, names }, { ...use, engine })).toEqual([
    "--dns: not used with --egress off",
  ]);
});

test("the set of tools is noted where tools are named", () => {
  const words = ["--toolsets", "all", "--tools", "read_file"];
  for (const argv of [["serve"], ["stdio"], ["serve", "--engine", "kubernetes"]]) {
    expect(notesOf({}, ...argv, ...words)).toEqual(["--toolsets: not used with --tools"]);
    expect(notesOf({}, ...argv, ...words.slice(0, 2))).toEqual([]);
  }
  expect(notesOf({ SANDBOX_MCP_TOOLSETS: "all", SANDBOX_MCP_TOOLS: "read_file" }, "gc")).toEqual(
    [],
  );
});

test("what is not asked for is not noted, and a variable is named as it was given", () => {
  const off = { SANDBOX_MCP_EGRESS: "off", SANDBOX_MCP_BUILD_BASE: "off" };
  const idle = ["--build-egress=off", "--auto-templates=off"];
  expect(notesOf(off, "serve", ...idle)).toEqual([]);
  expect(notesOf({ ...off, SANDBOX_MCP_DNS: "1.1.1.1" }, "serve")).toEqual([
    "SANDBOX_MCP_DNS: not used with --egress off",
  ]);
});

test.for([
  ["/run/user/0", ["/run/user/0/containers/auth.json"]],
  // Ignored, as its specification says.
  ["run", []],
  // Where skopeo and podman write the logins of root then.
  ["", ["/run/containers/0/auth.json"]],
] as const)("with XDG_RUNTIME_DIR=%s the files of logins are %j", ([folder, files]) => {
  expect(configOf({ XDG_RUNTIME_DIR: folder }, []).registryLogins).toEqual(files);
});

test("an empty variable counts as absent", () => {
  expect(configOf({ E2B_API_KEY: "", SANDBOX_MCP_PORT: "" }, []).engine).toBe("local");
});

test("every faulty flag and variable is named at once, as a usage error", () => {
  const loaded = loadConfig({ SANDBOX_MCP_PIDS: "many" }, ["--bogus", "--port=70000", "--host"]);
  expect("faults" in loaded && loaded.exitCode).toBe(64);
  const names = "faults" in loaded ? loaded.faults.map((fault) => fault.split(":")[0]) : [];
  expect(names).toEqual(["--bogus", "--host", "--port", "SANDBOX_MCP_PIDS"]);
});

test("a faulty variable alone is a configuration error", () => {
  expect(loadConfig({ SANDBOX_MCP_LOG_LEVEL: "loud" }, [])).toMatchObject({ exitCode: 78 });
});

test.for([
  ["SANDBOX_MCP_ENGINE", "far"],
  ["E2B_API_URL", "not a url"],
  ["E2B_SANDBOX_URL", "not a url"],
  ["SANDBOX_MCP_REQUIRE_ISOLATION", "none"],
  ["SANDBOX_MCP_PORT", "1.5"],
  ["SANDBOX_MCP_DOMAIN", "a b"],
  ["SANDBOX_MCP_DOMAIN", "192.0.2.1"],
  ["E2B_DOMAIN", "192.0.2.1:3490"],
  ["SANDBOX_MCP_API_KEY", "a b"],
  ["SANDBOX_MCP_API_KEY", "k".repeat(513)],
  ["SANDBOX_MCP_MAX_SANDBOXES", "0"],
  ["SANDBOX_MCP_MAX_SANDBOXES_PER_TEAM", "0"],
  ["SANDBOX_MCP_MEMORY_MB", "64"],
  ["SANDBOX_MCP_CPUS", "-1"],
  ["SANDBOX_MCP_DISK_MB", "1"],
  ["SANDBOX_MCP_STORE_GB", "7"],
  ["SANDBOX_MCP_PIDS", "x"],
  ["SANDBOX_MCP_TOOLSETS", "some"],
  ["SANDBOX_MCP_TOOLS", "a b"],
  ["SANDBOX_MCP_READ_ONLY", "perhaps"],
  ["SANDBOX_MCP_METRICS", "perhaps"],
  ["SANDBOX_MCP_PROTOCOL", "modern"],
  ["SANDBOX_MCP_ON_EXIT", "burn"],
  ["SANDBOX_MCP_ALLOW_HOST_TEMPLATE", "perhaps"],
] as const)("%s refuses %s", ([name, value]) => {
  const loaded = loadConfig({ [name]: value }, []);
  expect("faults" in loaded && loaded.faults).toEqual([expect.stringContaining(name)]);
});

test("the way out is on, off, or a namespace, with name servers of one's own", () => {
  const flags = ["--egress", "/run/netns/vpn", "--dns", "192.0.2.1,192.0.2.2"];
  expect(configOf({}, flags).egress).toEqual({
    namespace: "/run/netns/vpn",
    resolvers: ["192.0.2.1", "192.0.2.2"],
  });
  expect(configOf({ SANDBOX_MCP_EGRESS: "off" }, []).egress).toBeUndefined();
  const faulty = loadConfig({}, ["--egress", "maybe", "--dns", "localhost"]);
  expect(faulty).toMatchObject({ exitCode: 64 });
});

test("shares of the pool are read from a list", () => {
  const { poolTemplates } = configOf({}, ["--pool-template", "api=2,team/web:v1=1"]);
  expect(poolTemplates).toEqual([
    { template: "api", size: 2 },
    { template: "team/web:v1", size: 1 },
  ]);
});

test("what builds may reach: on, off or a list", () => {
  expect(configOf({}, []).buildEgress).toBeUndefined();
  expect(configOf({}, ["--build-egress", "on"]).buildEgress).toBeUndefined();
  expect(configOf({}, ["--build-egress", "off"]).buildEgress).toEqual([]);
  expect(configOf({}, ["--build-egress", "a.test,10.0.0.0/8"]).buildEgress).toEqual([
    "a.test",
    "10.0.0.0/8",
  ]);
  expect(configOf({}, ["--build-egress", "*.a.test,192.0.2.7,b"]).buildEgress).toEqual([
    "*.a.test",
    "192.0.2.7",
    "b",
  ]);
});

test.for([
  "a b",
  "",
  "a.test,",
  "on,a.test",
  "a.test,off",
  "off,on",
  "10.0.0.0/33",
  "10.0.0.0/8/8",
  "10.0.0.256",
  "0x7f000001",
  "fd00::/8",
  "https://a.test",
  "a.test:443",
  "a.*.test",
  "-a.test",
  `${"a.".repeat(127)}test`,
  Array.from({ length: 101 }, (_, index) => `h${index}.test`).join(","),
])("builds cannot reach %o: it is refused at the start", (list) => {
  expect(loadConfig({}, ["--build-egress", list])).toMatchObject({ exitCode: 64 });
});

test("-f is the Dockerfile of a build", () => {
  expect(configOf({}, ["template", "build", "-f", "x"])).toMatchObject({
    words: ["template", "build"],
    dockerfile: "x",
  });
});

test.for([
  { value: "0", pauseToDisk: { afterSeconds: 0, isAtExit: false } },
  { value: "after=60", pauseToDisk: { afterSeconds: 60, isAtExit: false } },
  { value: "exit", pauseToDisk: { afterSeconds: undefined, isAtExit: true } },
  { value: "after=600,exit", pauseToDisk: { afterSeconds: 600, isAtExit: true } },
])("--pause-to-disk $value", ({ value, pauseToDisk }) => {
  expect(configOf({}, ["--pause-to-disk", value]).pauseToDisk).toEqual(pauseToDisk);
  expect(configOf({ SANDBOX_MCP_PAUSE_TO_DISK: value }, []).pauseToDisk).toEqual(pauseToDisk);
});

test("--encrypt-snapshots is off unless it is given", () => {
  expect(configOf({}, []).encryptsSnapshots).toBe(false);
  expect(configOf({}, ["--encrypt-snapshots"]).encryptsSnapshots).toBe(true);
  expect(configOf({ SANDBOX_MCP_ENCRYPT_SNAPSHOTS: "1" }, []).encryptsSnapshots).toBe(true);
});

test.for(["", "off", "after=", "after=-1", "1.5", "60,", "exit,60", "2592001", "after=60s"])(
  "--pause-to-disk %s is a fault",
  (value) => {
    const loaded = loadConfig({}, ["--pause-to-disk", value]);
    expect(loaded).toMatchObject({ exitCode: 64 });
    expect(JSON.stringify(loaded)).toMatch(/--pause-to-disk: expected (?:after=N, exit|at most)/);
  },
);

test.for(["api", "api=", "=1", "api=101", "a=1,,b=1"])("--pool-template %s is a fault", (value) => {
  const loaded = loadConfig({}, ["--pool-template", value]);
  expect(loaded).toMatchObject({ exitCode: 64 });
});

test.for(["", "a", "a=", "=b", "docker.io=", "docker.io=file:///x", "docker.io=-x", "a b=c"])(
  "--registry-mirror %s is a fault that names the flag",
  (value) => {
    const loaded = loadConfig({}, ["--registry-mirror", value]);
    expect(loaded).toMatchObject({ exitCode: 64 });
    expect(JSON.stringify(loaded)).toMatch(/--registry-mirror: expected/);
  },
);
