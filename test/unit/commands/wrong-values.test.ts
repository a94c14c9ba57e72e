/** What cannot be right for a flag is refused before anything starts, by a line that names the flag. */

import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config.ts";
import { listSettings } from "../../../src/settings.ts";

const LONG = "a".repeat(300);
const NOT_NUMBERS = ["x", "-1", "1.5", "1e3", " 1", "9".repeat(16)];
const NOT_LISTS = [",", "a,", "a,,b"];

/** Each flag that has a value: some that it refuses. */
const WRONG: Readonly<Record<string, readonly string[]>> = {
  engine: ["Local", "docker"],
  "require-isolation": ["none", "gVisor"],
  host: ["[::1]", "127.0.0.1:80", "::1:80:x", "256.1.1.1", "a/b", "a b", "a..b", "http://a"],
  port: [...NOT_NUMBERS, "65536"],
  tls: ["on", "cert.pem"],
  domain: [
    "a..b",
    ".",
    ".a",
    "a.",
    "-a.b",
    "a-.b",
    "a:0",
    "a:65536",
    "a:",
    "a:b",
    "*.a",
    "a/b",
    LONG,
  ],
  "api-key": ["a\nb", " a", "\u00e4"],
  pool: [...NOT_NUMBERS, "101"],
  "pool-template": [...NOT_LISTS, "a", "a=", "=1", "a=101", "a=1,a=2"],
  "max-sandboxes": [...NOT_NUMBERS, "0", "100001"],
  "max-sandboxes-per-team": [...NOT_NUMBERS, "0"],
  "memory-mb": [...NOT_NUMBERS, "127", "1048577"],
  cpus: [...NOT_NUMBERS, "0", "1025"],
  "disk-mb": [...NOT_NUMBERS, "63"],
  "volume-mb": [...NOT_NUMBERS, "63"],
  "store-gb": [...NOT_NUMBERS, "7"],
  pids: [...NOT_NUMBERS, "31"],
  "build-egress": [...NOT_LISTS, "on,a.test", "10.0.0.0/33"],
  egress: ["yes", "netns", "./netns", "/", "/a b"],
  dns: [
    ...NOT_LISTS,
    "a.test",
    "::1",
    "1.1.1",
    "1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1",
    "1.1.1.1,127.0.0.53",
    "0.0.0.0",
    "255.255.255.255",
  ],
  toolsets: ["some", "core,all"],
  tools: [...NOT_LISTS, "a b", "A"],
  "mcp-protocol": ["modern"],
  "on-exit": ["pause"],
  "pause-to-disk": ["soon", "after=", "exit,after=1", "after=9999999"],
  "log-level": ["loud", "INFO"],
  ca: ["on", "ca.pem"],
  proxy: ["on", "a.test:3128", "socks5://a.test"],
  "build-base": ["yes"],
  "auto-templates": ["yes"],
  name: ["A", "a b", "a:", ":a", "a/b", "a:b:c", LONG],
  "registry-mirror": [...NOT_LISTS, "a", "a=", "=a"],
  "pod-images": [...NOT_LISTS, "base", "base=", "Base=a", "base=a,base=b"],
  "egress-denied": [...NOT_LISTS, "a.test", "10.0.0.0/33"],
  "egress-name-servers": [...NOT_LISTS, "a.test"],
  "snapshot-registry": ["a", "A/b", "https://a/b"],
  "volume-class": ["A", "-a", "a b"],
  "volume-access": ["readwriteonce"],
  "kubernetes-url": ["a.test", "ftp://a.test"],
  "kubernetes-namespace": ["A", "-a", "a.b", LONG],
};

/** Paths and names that only the machine can judge: `test/e2e/bad-start.test.ts` has their rows. */
const JUDGED_LATER = [
  "file",
  "home",
  "kubernetes-account",
  "log-file",
  "pod-template",
  "runtime",
  "snapshot-registry-login",
  "team",
  "tls-cert",
  "tls-key",
];

/** Of a path; the others are names. */
const PATHS = JUDGED_LATER.filter((flag) => flag !== "team");

test.for(PATHS)("--%s refuses what only a shell would make a path", (flag) => {
  for (const value of ["~", "~/x", "~ada/x", "$HOME/x", "${HOME}/x", "${HOME}"]) {
    expect(faultsOf({}, `--${flag}=${value}`).faults).toEqual([
      expect.stringMatching(`^--${flag}: expected a path without ~`),
    ]);
  }
  for (const value of ["./~", "/srv/~/x", "a$b", "/x/$HOME", "~x y"]) {
    expect(faultsOf({}, `--${flag}=${value}`).faults).toEqual([]);
  }
});

function faultsOf(environment: Readonly<Record<string, string>>, ...argv: string[]) {
  const loaded = loadConfig(environment, argv);
  return "faults" in loaded ? loaded : { exitCode: 0, faults: [] };
}

function listFlags(isSwitch: boolean): string[] {
  const settings = listSettings().map(([, setting]) => setting);
  const found = settings.filter((setting) => (setting.isSwitch ?? false) === isSwitch);
  return found.flatMap(({ flag }) => flag ?? []).toSorted();
}

test("each flag with a value has its row", () => {
  expect([...Object.keys(WRONG), ...JUDGED_LATER].toSorted()).toEqual(listFlags(false));
});

test.for(Object.entries(WRONG))("--%s refuses what cannot be right", ([flag, values]) => {
  const taken = values.filter((value) => faultsOf({}, `--${flag}=${value}`).exitCode !== 64);
  expect(taken).toEqual([]);
  const lines = values.map((value) => faultsOf({}, `--${flag}=${value}`).faults.join("\n"));
  expect(lines.filter((line) => !line.startsWith(`--${flag}: `) || line.includes("\n"))).toEqual(
    [],
  );
});

test("by its variable each is refused in the same words, as a fault of the configuration", () => {
  const rows = listSettings().flatMap(([, { flag = "", environment }]) =>
    environment === undefined
      ? []
      : (WRONG[flag] ?? []).map((value) => ({ flag, environment, value })),
  );
  expect(rows.length).toBeGreaterThan(150);
  for (const { flag, environment, value } of rows) {
    const { faults } = faultsOf({}, `--${flag}=${value}`);
    expect(faultsOf({ [environment]: value })).toEqual({
      exitCode: 78,
      faults: faults.map((fault) => fault.replace(`--${flag}`, environment)),
    });
  }
});

test.for([...listFlags(false), ...listFlags(true)])("--%s is refused empty and twice", (flag) => {
  expect(faultsOf({}, `--${flag}=`)).toEqual({
    exitCode: 64,
    faults: [expect.stringMatching(new RegExp(`^--${flag}: `))],
  });
  expect(faultsOf({}, `--${flag}=true`, `--${flag}=true`).faults).toContain(
    `--${flag}: given twice`,
  );
});

test.for(listFlags(true))("--%s refuses a word that is neither yes nor no", (flag) => {
  expect(faultsOf({}, `--${flag}=perhaps`)).toMatchObject({
    exitCode: 64,
    faults: [expect.stringMatching(`^--${flag}: expected true or false`)],
  });
});
