import { copyFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const WITHOUT_TABLE = [
  "copier-entry.pl",
  "execute.pl",
  "find-data.pl",
  "launcher-disks.pl",
  "launcher-images.pl",
  "sentry-links.pl",
  "syscalls.pl",
];

/** What each needs before its first look at the table, and where it says that there is none. */
const CASES = [
  { program: "abilities", words: [process.arch], code: 2, said: "cannot load " },
  { program: "attributes", words: [process.arch], code: 111, said: "" },
  { program: "behind-proxy", words: [process.arch], code: 2, said: "cannot load " },
  { program: "boot-id", words: [process.arch], code: 111, said: "boot-id: cannot load " },
  { program: "clone-disk", words: [process.arch], code: 111, said: "clone-disk: cannot load " },
  { program: "copier", words: [process.arch], code: 111, said: "copier: cannot load " },
  {
    program: "forget-connections",
    words: [process.arch],
    code: 111,
    said: "forget-connections: cannot load ",
  },
  { program: "init", words: [process.arch, "true"], code: 71, said: "cannot load " },
  { program: "inotify", words: [process.arch], code: 111, said: "" },
  { program: "launcher", words: [process.arch], code: 111, said: "launcher: cannot load " },
  { program: "listen-inside", words: [process.arch], code: 2, said: "cannot load " },
  { program: "sentry-relay", words: [process.arch], code: 2, said: "cannot load " },
  { program: "spawner", words: [process.arch], code: 111, said: "" },
  { program: "terminal", words: [process.arch], code: 111, said: "fail 2 table of system calls" },
  {
    program: "user-namespace",
    words: ["FAULT", process.arch, "/no/such", "true", "true", "sh", "-c", 'echo "$FAULT" >&2'],
    code: 0,
    said: "cannot load ",
  },
  { program: "write-tree", words: [process.arch], code: 111, said: "write-tree: cannot load " },
] as const;

test("the cases below are all programs that load the table", async () => {
  const names = (await readdir(PERL_DIRECTORY)).filter((name) => !WITHOUT_TABLE.includes(name));
  expect(names.toSorted()).toEqual(CASES.map(({ program }) => `${program}.pl`));
});

test.for(CASES)("$program without its table says so and does nothing", async (options) => {
  const { program, words, code, said } = options;
  await using folder = await makeTempFolder();
  await copyFile(join(PERL_DIRECTORY, `${program}.pl`), join(folder.path, `${program}.pl`));
  const run = await runPerl(program, {
    words,
    directory: folder.path,
    ...(program === "terminal" && { orders: Buffer.alloc(0) }),
  });
  expect(run.code).toBe(code);
  expect(run.stdout.toString()).toBe("");
  expect(run.stderr + run.reports).toContain(said);
});

test.for([
  "attributes",
  "behind-proxy",
  "boot-id",
  "clone-disk",
  "copier",
  "init",
  "inotify",
  "launcher",
  "spawner",
  "write-tree",
])("%s does nothing on another processor, nor without one", async (program) => {
  for (const words of [["mips"], [""], []]) {
    const { code, stdout } = await runPerl(program, { words });
    expect(stdout.toString()).toBe("");
    expect(code).toBeGreaterThan(0);
  }
});

test("the table has a number for each name on both processors, and no other one", async () => {
  await using folder = await makeTempFolder();
  await copyFile(join(PERL_DIRECTORY, "syscalls.pl"), join(folder.path, "syscalls.pl"));
  const script = join(PERL_DIRECTORY, "../../test/support/print-syscalls.pl");
  await copyFile(script, join(folder.path, "print-syscalls.pl"));
  const { code, stdout } = await runPerl("print-syscalls", { directory: folder.path });
  const rows = stdout.toString().trim().split("\n");
  expect(code).toBe(0);
  expect(rows.length).toBeGreaterThan(40);
  expect(rows.filter((row) => !/^\w+ \d+ \d+$/.test(row))).toEqual([]);
  expect(rows).toContain("openat 257 56");
});
