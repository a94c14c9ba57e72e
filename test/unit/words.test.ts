/** Words that must not come back, each with its replacement: in documents, file names and source. */

import { readdir, readFile } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const MIN_DOCUMENTS = 25;
const MIN_FILES = 200;

/** Written by a generator. */
const GENERATED = join("src", "gen");

/** Of a merge that was not finished. */
const MERGE_MARKS = /^(?:<{7}|\|{7}|>{7})(?: |$)/m;

interface Word {
  readonly pattern: RegExp;
  readonly replacement: string;
}

/** Words of a picture that a reader would have to guess. Not used anywhere. */
const EVERYWHERE: readonly Word[] = [
  { pattern: /\brooms?\b/i, replacement: "module, or the component's name" },
  { pattern: /\bdoors?\b/i, replacement: "listener, listening socket" },
  { pattern: /\bdoorkeepers?\b/i, replacement: "SandboxLookup" },
  { pattern: /\bhouses?\b/i, replacement: "codebase" },
  { pattern: /\bmend(?:s|ed|ing)?\b/i, replacement: "fix" },
  { pattern: /\bwhoever\b/i, replacement: "the component or user" },
  { pattern: /\bwhose ?it ?is\b/i, replacement: "owner" },
  { pattern: /\bnobody\b/i, replacement: "no client, no process, no user" },
  { pattern: /\b(?:some|any|every)body\b/i, replacement: "the component or user" },
  { pattern: /\b(?:stands?|stood|standing)[ -]still\b/i, replacement: "is frozen" },
  { pattern: /\brehears/i, replacement: "precompile, warm-up run" },
  { pattern: /\bways? on\b/i, replacement: "next step" },
  { pattern: /\bway out\b/i, replacement: "internet access, escape" },
  { pattern: /\bvoices?\b/i, replacement: "stream" },
  { pattern: /\bknocks?\b/i, replacement: "WakeRequest" },
  { pattern: /\bsleepers?\b/i, replacement: "StoppedSandbox" },
  { pattern: /\bwish(?:es)?\b/i, replacement: "request, plan, options" },
  { pattern: /\bturnstiles?\b/i, replacement: "StartLimiter" },
  { pattern: /\bseams?\b/i, replacement: "interface" },
  { pattern: /\bnames of hosts\b|\bnamed hosts?\b/i, replacement: "hostnames" },
];

/** In documents the component has a name, and data is not a speaker. */
const IN_DOCUMENTS: readonly Word[] = [
  ...EVERYWHERE,
  { pattern: /\bfolders?\b/i, replacement: "directory" },
  { pattern: /\bholes?\b/i, replacement: "vulnerability" },
  { pattern: /\b(?:tells?|told|says?|said|saying)\b/i, replacement: "reports, states, returns" },
  { pattern: /\b(?:we|us|ours?)\b/i, replacement: "the name of the component" },
  { pattern: /^\W*(?:not )?kept:/i, replacement: "Adopted, Rejected" },
  { pattern: /\bstands? (?:in|on|between|among|at)\b/i, replacement: "is" },
  { pattern: /\bpicture\b/i, replacement: "overview" },
  { pattern: /^(?:<{7}|\|{7}|>{7})(?= |$)/, replacement: "one side of the merge conflict" },
];

/** Names of files that need a key to be understood. */
const FILE_NAMES: readonly Word[] = [
  ...EVERYWHERE,
  { pattern: /^near$/, replacement: "direct-connection" },
  { pattern: /^settle$/, replacement: "retry-conflict" },
  { pattern: /^(?:later|do-later)$/, replacement: "retry-cleanup" },
  { pattern: /^rest$/, replacement: "idle-memory" },
  { pattern: /^carried$/, replacement: "bundled-program" },
  { pattern: /^known$/, replacement: "the name of what is known" },
  { pattern: /^rights$/, replacement: "permissions" },
  { pattern: /^stops$/, replacement: "stop-signals" },
  { pattern: /^late-service$/, replacement: "deferred-service" },
  { pattern: /^patience$/, replacement: "daemon-timeout" },
  { pattern: /^branches$/, replacement: "fan-out" },
  { pattern: /^(?:misc|stuff|helpers|utils?)$/, replacement: "the name of the content" },
];

/** Comments, strings and names of TypeScript, in the order in which they are tried. */
const TOKEN_PATTERN =
  /(?<comment>\/\*[\s\S]*?\*\/|\/\/.*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|(?<name>[A-Za-z_$][\w$]*)/g;

function findWords(where: string, text: string, words: readonly Word[]): string[] {
  return words.flatMap(({ pattern, replacement }) => {
    const found = pattern.exec(text);
    return found === null ? [] : [`${where}: "${found[0]}", use: ${replacement}`];
  });
}

/** The words of a document, line by line; code is a name of something else and is left out. */
function findInDocument(path: string, text: string): string[] {
  const prose = text
    .replaceAll(/^```[\s\S]*?^```$/gm, (block) => block.replaceAll(/[^\n]/g, ""))
    .replaceAll(/`[^`\n]*`/g, "");
  const lines = prose.split("\n");
  return lines.flatMap((line, at) => findWords(`${path}:${at + 1}`, line, IN_DOCUMENTS));
}

function findInFileName(path: string): string[] {
  const name = basename(path).replace(/\..*$/, "");
  const asWords = name.replaceAll("-", " ");
  const words = FILE_NAMES.filter(({ pattern }) => pattern.test(name) || pattern.test(asWords));
  return words.map(({ replacement }) => `${path}: use ${replacement}`);
}

/** The words of comments and of identifiers, of which each part of camelCase is one. */
function findInSource(path: string, text: string): string[] {
  return [...text.matchAll(TOKEN_PATTERN)].flatMap(({ index, groups }) => {
    const { comment, name } = groups ?? {};
    const named = name?.replaceAll(/(?<=[a-z0-9])(?=[A-Z])|_/g, " ");
    const prose = (comment ?? named ?? "").replaceAll(/\n\s*\* ?/g, " ");
    const found = findWords("", prose, EVERYWHERE);
    if (found.length === 0) return [];
    const line = text.slice(0, index).split("\n").length;
    return found.map((fault) => `${path}:${line}${fault}`);
  });
}

async function listFiles(folder: string, ending: string): Promise<string[]> {
  const entries = await readdir(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

async function readText(path: string): Promise<string> {
  return readFile(join(ROOT, path), "utf8");
}

test("no document has a word of the list", async () => {
  // EVIDENCE.md repeats a run and is written anew by the next one.
  const paths = ["README.md", "SECURITY.md", ...(await listFiles("docs", ".md"))];
  expect(paths.length).toBeGreaterThan(MIN_DOCUMENTS);
  const found = await Promise.all(
    paths.map(async (path) => findInDocument(path, await readText(path))),
  );
  expect(found.flat()).toEqual([]);
});

test("no file of the source and the tests has a name of the list", async () => {
  const paths = [...(await listFiles("src", ".ts")), ...(await listFiles("test", ".ts"))];
  expect(paths.length).toBeGreaterThan(MIN_FILES);
  expect(paths.flatMap(findInFileName)).toEqual([]);
});

test("no source has a word of the list in a comment or an identifier", async () => {
  const paths = (await listFiles("src", ".ts")).filter((path) => !path.startsWith(GENERATED));
  expect(paths.length).toBeGreaterThan(MIN_FILES);
  const found = await Promise.all(
    paths.map(async (path) => findInSource(path, await readText(path))),
  );
  expect(found.flat()).toEqual([]);
});

test("no instruction and no description of a tool has a word of the list", async () => {
  // One string of JSON a line: the answers to the opening of a host.
  const lines = (await readText("src/mcp/recorded-opening.json")).split("\n");
  const texts = lines.filter((line) => /^ *"(?:description|instructions|title)": "/.test(line));
  expect(texts.length).toBeGreaterThan(MIN_FILES);
  expect(texts.flatMap((text) => findWords(text.trim(), text, IN_DOCUMENTS))).toEqual([]);
});

test("no document has the marks of a merge", async () => {
  const paths = ["README.md", "SECURITY.md", "EVIDENCE.md", ...(await listFiles("docs", ".md"))];
  const texts = await Promise.all(paths.map(async (path) => [path, await readText(path)] as const));
  expect(texts.filter(([, text]) => MERGE_MARKS.test(text)).map(([path]) => path)).toEqual([]);
  expect(MERGE_MARKS.test(`${"|".repeat(7)} a name`)).toBe(true);
});

test.for([
  { text: "The rooms of the service.", found: ['a.md:1: "rooms"'] },
  { text: "Fine.\nThe sandbox stands still.", found: ['a.md:2: "stands still"'] },
  { text: "```\ndoor.sock\n```\nIt is told.", found: ['a.md:4: "told"'] },
  { text: "One.\n||||||| base\nTwo.", found: ['a.md:2: "|||||||"'] },
  { text: "The file `door.sock`, headroom, mushrooms.", found: [] },
])("a planted word of a document is found: %#", ({ text, found }) => {
  expect(findInDocument("a.md", text).map((fault) => fault.split(",")[0])).toEqual(found);
});

test.for([
  { path: "src/client/near.ts", count: 1 },
  { path: "src/envd/process/turnstile.ts", count: 1 },
  { path: "src/egress/tls-door.ts", count: 1 },
  { path: "src/common/later.test.ts", count: 1 },
  { path: "src/client/nearest.ts", count: 0 },
  { path: "src/spool/writer.ts", count: 0 },
])("a planted file name is found: $path", ({ path, count }) => {
  expect(findInFileName(path)).toHaveLength(count);
});

test.for([
  { text: "/** Held by\n * whoever opened it. */", found: ['a.ts:1: "whoever"'] },
  { text: "// fine\nconst a = 1; // nobody reads it", found: ['a.ts:2: "nobody"'] },
  { text: "const { openDoor } = service;", found: ['a.ts:1: "Door"'] },
  { text: "type CreateWish = {};", found: ['a.ts:1: "Wish"'] },
  { text: "const MAX_ROOMS = 3;", found: ['a.ts:1: "ROOMS"'] },
  { text: 'const path = "door.sock"; const text = `nobody`;', found: [] },
])("a planted word of the source is found: %#", ({ text, found }) => {
  expect(findInSource("a.ts", text).map((fault) => fault.split(",")[0])).toEqual(found);
});
