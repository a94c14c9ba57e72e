/** The files of a COPY step: which ones a source names, and that none is outside of its folder. */

import { execFile } from "node:child_process";
import { appendFileSync } from "node:fs";
import { mkdir, readFile, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { promisify } from "node:util";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { pino } from "pino";
import { expect, test } from "vitest";
import { isArchive } from "../../../src/commands/template-build/archive-content.ts";
import { buildTemplate } from "../../../src/commands/template-build/build.ts";
import { findFiles, readIgnore } from "../../../src/commands/template-build/context-files.ts";
import { findSources } from "../../../src/commands/template-build/find-sources.ts";
import {
  NOTHING_IGNORED,
  readIgnoreFile,
} from "../../../src/commands/template-build/ignore-file.ts";
import { toMatcher } from "../../../src/commands/template-build/wildcard.ts";
import { loadConfig } from "../../../src/config.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const SECRET = "outside of the folder";
const OUTSIDE = "leads out of the folder by a link";

/** A folder with links, some of which lead out of it. */
async function makeContext() {
  const place = await makeTempFolder();
  const folder = join(place.path, "context");
  await mkdir(join(folder, "app/in"), { recursive: true });
  await mkdir(join(place.path, "out/deep"), { recursive: true });
  await writeFile(join(place.path, "out/secret"), SECRET);
  await writeFile(join(place.path, "out/deep/secret"), SECRET);
  for (const name of ["a.txt", ".hidden", "{a,b}", "app/b.txt", "app/in/c.txt", "app/x1"]) {
    await writeFile(join(folder, name), name);
  }
  await symlink("app", join(folder, "near"));
  await symlink("../out", join(folder, "far"));
  await symlink("/etc", join(folder, "app/system"));
  await symlink("nowhere", join(folder, "broken"));
  return { folder, [Symbol.asyncDispose]: () => place[Symbol.asyncDispose]() };
}

async function collectFiles(...args: Parameters<typeof findFiles>) {
  return (await findFiles(...args)).read(new AbortController().signal);
}

async function find(folder: string, source: string): Promise<string[]> {
  return (await Array.fromAsync(findSources(folder, source))).toSorted();
}

test.for([
  ["a.txt", ["a.txt"]],
  [".", [""]],
  ["app/./in//c.txt", ["app/in/c.txt"]],
  ["*", [".hidden", "a.txt", "app", "broken", "far", "near", "{a,b}"]],
  ["*.txt", ["a.txt"]],
  ["app/?1", ["app/x1"]],
  ["app/[a-c].*", ["app/b.txt"]],
  ["app/[^a-c][0-9]", ["app/x1"]],
  ["{a,b}", ["{a,b}"]],
  ["**/c.txt", ["app/in/c.txt"]],
  ["app/**", ["app", "app/in"]],
  ["a**t", ["a.txt"]],
  ["near/b.txt", ["near/b.txt"]],
  ["far", ["far"]],
  ["broken", ["broken"]],
  ["broken/x", []],
  ["a.txt/x", []],
  ["none", []],
] as const)("%s names %j", async ([source, names]) => {
  await using context = await makeContext();
  expect(await find(context.folder, source)).toEqual([...names]);
});

test.for(["far/secret", "far/*", "far/deep/secret", "*/secret", "app/system/passwd", "app/*/*"])(
  "%s leads out of the folder and is refused",
  async (source) => {
    await using context = await makeContext();
    await expect(collectFiles(context.folder, [source, "/x"], NOTHING_IGNORED)).rejects.toThrow(
      OUTSIDE,
    );
  },
);

test.for(["..", "../out/secret", "app/../../out/secret", "/../out/secret"])(
  "%s is outside of the folder and refused",
  async (source) => {
    await using context = await makeContext();
    await expect(collectFiles(context.folder, [source, "/x"], NOTHING_IGNORED)).rejects.toThrow(
      /is outside of the folder|matches no file/,
    );
  },
);

test("an archive of the whole folder has its links as links, and nothing behind them", async () => {
  await using context = await makeContext();
  const files = await collectFiles(context.folder, [".", "/x"], NOTHING_IGNORED);
  const archive = await buffer(files.open());
  expect(archive).toHaveLength(files.bytes);
  expect(archive.includes(SECRET)).toBe(false);
  expect(archive.includes("../out")).toBe(true);
});

test.for([
  { title: "written to", change: (path: string) => writeFile(path, "b.txt") },
  { title: "emptied", change: (path: string) => writeFile(path, "") },
])("a file that was $title after it was hashed is not sent", async ({ change }) => {
  await using context = await makeContext();
  const files = await collectFiles(context.folder, ["a.txt", "/x"], NOTHING_IGNORED);
  await change(join(context.folder, "a.txt"));
  await expect(buffer(files.open())).rejects.toThrow("a.txt changed while it was read");
});

test("a file that grows all the time is sent as long as it was found", async () => {
  await using context = await makeContext();
  const log = join(context.folder, "x.log");
  await writeFile(log, "begin\n");
  // It is found before this one is read, and read after it.
  await writeFile(join(context.folder, "large"), "");
  await truncate(join(context.folder, "large"), 16 * 1024 * 1024);
  const timer = setInterval(() => appendFileSync(log, "line\n"), 1);
  using _ = { [Symbol.dispose]: () => clearInterval(timer) };
  const files = await collectFiles(context.folder, ["[lx]*[eg]", "/x"], NOTHING_IGNORED);
  const archive = await buffer(files.open());
  expect(archive.length).toBe(files.bytes);
  expect(archive.includes("begin\n")).toBe(true);
});

test.for([
  ["linked", { linked: "a.txt" }],
  ["near", { "near/": "", "near/b.txt": "app/b.txt", "near/x1": "app/x1" }],
  ["linke?", { linked: "a.txt" }],
] as const)("a source %s that is a link itself is what it leads to", async ([source, names]) => {
  await using context = await makeContext();
  const { folder } = context;
  await symlink("a.txt", join(folder, "linked"));
  await rm(join(folder, "app/system"));
  const files = await collectFiles(folder, [source, "/x"], readIgnoreFile("app/in\n"));
  await writeFile(join(folder, "x.tar"), await buffer(files.open()));
  const { stdout } = await run("tar", ["-tf", join(folder, "x.tar")]);
  expect(stdout.trim().split("\n")).toEqual(Object.keys(names));
  const contents = await run("tar", ["-xOf", join(folder, "x.tar")]);
  expect(contents.stdout).toBe(Object.values(names).join(""));
});

test.for([
  ["far", OUTSIDE],
  ["broken", "broken is a link to nothing"],
  ["hides", "matches no file"],
] as const)("a source %s that is such a link is refused", async ([source, fault]) => {
  await using context = await makeContext();
  await symlink("app/in/c.txt", join(context.folder, "hides"));
  const rules = readIgnoreFile("app/in\n");
  await expect(collectFiles(context.folder, [source, "/x"], rules)).rejects.toThrow(fault);
});

test("a folder that is named by a link has its files", async () => {
  await using context = await makeContext();
  const folder = join(context.folder, "near");
  const files = await collectFiles(folder, [".", "/x"], NOTHING_IGNORED);
  expect((await buffer(files.open())).includes("app/b.txt")).toBe(true);
});

test("an ignore file of the Dockerfile comes before that of the folder", async () => {
  await using context = await makeContext();
  const { folder } = context;
  await writeFile(join(folder, ".dockerignore"), "a.txt\n");
  await writeFile(join(folder, "app/Other.dockerignore"), ".hidden\n");
  const rules = await readIgnore(folder, join(folder, "app/Other"));
  expect([".hidden", "a.txt"].map((name) => rules.isIgnored(name))).toEqual([true, false]);
});

test("an archive has names of any length, times and modes of the files", async () => {
  await using context = await makeContext();
  const { folder } = context;
  const deep = `${"d".repeat(120)}/é`;
  await mkdir(join(folder, "d".repeat(120)));
  await writeFile(join(folder, deep), "deep", { mode: 0o640 });
  await utimes(join(folder, deep), 1_600_000_000, 1_600_000_000);
  const files = await collectFiles(folder, [deep, "/x"], NOTHING_IGNORED);
  await writeFile(join(folder, "x.tar"), await buffer(files.open()));
  const options = ["--utc", "--full-time", "--quoting-style=literal"];
  const { stdout } = await run("tar", ["-tvf", join(folder, "x.tar"), ...options]);
  expect(stdout.trim().split(/ +/)).toEqual([
    "-rw-r-----",
    "0/0",
    "4",
    "2020-09-13",
    "12:26:40",
    deep,
  ]);
});

test("a name that is not UTF-8 is refused, unless its folder is ignored", async () => {
  await using context = await makeContext();
  const { folder } = context;
  const raw = Buffer.concat([Buffer.from(join(folder, "app/in/lat-")), Buffer.of(0xe9)]);
  await writeFile(raw, "");
  await expect(collectFiles(folder, ["app", "/x"], NOTHING_IGNORED)).rejects.toThrow(
    `${join(folder, "app/in/lat-")}\uFFFD: the name is not UTF-8`,
  );
  const rules = readIgnoreFile("app/in\n!app/x1\n");
  const files = await collectFiles(folder, ["app", "/x"], rules);
  expect((await buffer(files.open())).includes("app/x1")).toBe(true);
});

test("a file that cannot be read is named with its instruction", async () => {
  await using place = await makeTempFolder();
  const dockerfile = join(place.path, "Dockerfile");
  await writeFile(dockerfile, "FROM base\nCOPY mem /x\n");
  const loaded = loadConfig({}, ["template", "build", "--name", "x", "--file", dockerfile]);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
  const context = { config: loaded.config, words: [], log: pino({ level: "silent" }) };
  await expect(buildTemplate(context, "/proc/self", AbortSignal.timeout(1_000))).rejects.toThrow(
    "Dockerfile:2: COPY: EIO",
  );
});

test("ADD refuses what docker would unpack, by its content, and COPY takes it", async () => {
  await using context = await makeContext();
  const { folder } = context;
  await run("tar", ["-C", folder, "-cf", join(folder, "tar"), "app/in"]);
  const tar = await readFile(join(folder, "tar"));
  const big = Buffer.concat([tar, Buffer.alloc(300_000)]);
  const files = {
    gzip: [gzipSync(tar), true],
    zstd: [zstdCompressSync(big), true],
    // Not unpacked here to know what is in it.
    xz: [Buffer.from("fd377a585a000004", "hex"), true],
    bzip2: [Buffer.from("BZh91AY&SY"), true],
    "text.tar.gz": [Buffer.from("no archive"), false],
    "text.gz": [gzipSync("no archive".repeat(100)), false],
    "cut.tgz": [gzipSync(tar).subarray(0, 12), false],
    empty: [Buffer.alloc(0), false],
    zeros: [Buffer.alloc(2_048), false],
  } as const;
  const found: Record<string, boolean> = { tar: await isArchive(join(folder, "tar")) };
  for (const [name, [content]] of Object.entries(files)) {
    await writeFile(join(folder, name), content);
    found[name] = await isArchive(join(folder, name));
  }
  const wanted = Object.entries(files).map(([name, [, is]]) => [name, is] as const);
  expect(found).toEqual({ tar: true, ...Object.fromEntries(wanted) });
  for (const [line, fault] of [
    ["ADD app ta* /x", "Dockerfile:2: ADD: tar is an archive"],
    ["COPY tar none /x", "Dockerfile:2: COPY: none matches no file"],
    ["ADD text.tar.gz none /x", "Dockerfile:2: ADD: none matches no file"],
  ] as const) {
    await writeFile(join(folder, "Dockerfile"), `FROM base\n${line}\n`);
    const loaded = loadConfig({}, ["template", "build", "--name", "x"]);
    if ("faults" in loaded) throw new Error(loaded.faults.join("\n"));
    const build = { config: loaded.config, words: [], log: pino({ level: "silent" }) };
    const built = buildTemplate(build, folder, AbortSignal.timeout(5_000));
    await expect(built).rejects.toThrow(fault);
  }
});

test("an ignore file that cannot be used stops the build: it may keep secrets out", async () => {
  await using context = await makeContext();
  const { folder } = context;
  expect((await readIgnore(folder, join(folder, "Dockerfile"))).isIgnored("a.txt")).toBe(false);
  const path = join(folder, ".dockerignore");
  await mkdir(path);
  await expect(readIgnore(folder, join(folder, "Dockerfile"))).rejects.toThrow("cannot be read");
  await using other = await makeContext();
  const text = join(other.folder, ".dockerignore");
  await writeFile(text, "secret\n[z-a]\n");
  await expect(readIgnore(other.folder, join(other.folder, "Dockerfile"))).rejects.toThrow(
    "not a pattern of paths: [z-a]",
  );
  await writeFile(text, "x\n".repeat(1_001));
  await expect(readIgnore(other.folder, join(other.folder, "Dockerfile"))).rejects.toThrow(
    "at most 1000 patterns",
  );
});

test.for([
  ["*", "a", true],
  ["*", "a/b", false],
  ["**", "a/b", true],
  ["**/b", "b", true],
  ["**/b", "a/b", true],
  ["**/b", "ab", false],
  ["a/**/b", "a/b", true],
  ["a/**/b", "a/x/y/b", true],
  ["a**b", "a/x/b", true],
  ["a**b", "ax/b", true],
  ["a**b", "a/b", true],
  ["a**b", "ab", true],
  ["a**b", "axb", false],
  ["a**b", "a/xb", false],
  ["a**/b", "ab", true],
  ["a**", "axb/c", true],
  ["a/**", "a", false],
  ["**b", "a/xb", true],
  ["**b*", "a/xb", false],
  ["**b*", "a/bx", true],
  ["?", "/", false],
  ["[^a]", "/", true],
  ["[a-c\\]]", "]", true],
  ["[\\^a]", "^", true],
  [String.raw`\*`, "*", true],
  [String.raw`\*`, "a", false],
  ["(a+)+$", "aa", false],
  ["", "", true],
] as const)("%s and %s: %s", ([pattern, text, fits]) => {
  expect(toMatcher(pattern)(text)).toBe(fits);
});

test.for(["[", "a[", "[]", "[z-a]", "[^]", "\\"])("%s is no pattern", (pattern) => {
  expect(() => toMatcher(pattern)).toThrow("not a pattern of paths");
});

test("no pattern takes long", () => {
  expect(toMatcher("**/".repeat(200) + "z")("a/".repeat(200) + "y")).toBe(false);
  expect(toMatcher("*a".repeat(200) + "b")("a".repeat(255))).toBe(false);
  expect(toMatcher("**a".repeat(200) + "b")("a".repeat(2_000))).toBe(false);
});
