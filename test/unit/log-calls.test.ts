/** One spelling for errors in log lines: the key `err` with the error itself. */

import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../src");
const MIN_CALLS = 40;
const CALL_PATTERN = /\blog\??\.(?:trace|debug|info|warn|error|fatal)\(/g;
/** An error under another name, its text alone, or its stack put together by hand. */
const WRONG_PATTERN =
  /\b(?:error|exception|cause|fault|failure|e|ex)\b\s*(?::|,|\})|errorText\(|\.message\b|\.stack\b|err: (?:String|`)/;
/** Entries are also made before the call. */
const WRONG_ENTRY_PATTERN = /\b(?:error|reason|err): (?:errorText|quoteUntrusted)\(/;

/** The arguments of the call whose bracket opens before `start`. */
function argumentsFrom(text: string, start: number): string {
  let depth = 1;
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === "(") depth += 1;
    if (text[at] === ")") depth -= 1;
    if (depth === 0) return text.slice(start, at);
  }
  return text.slice(start);
}

function callsIn(text: string): string[] {
  return [...text.matchAll(CALL_PATTERN)].map(({ 0: call, index }) =>
    argumentsFrom(text, index + call.length),
  );
}

function isWrong(call: string): boolean {
  // What an error is called in a value, after its key, is of no interest.
  return WRONG_PATTERN.test(call.replaceAll(/\berr: [a-z.]+/gi, "err"));
}

async function readSources(): Promise<{ readonly path: string; readonly text: string }[]> {
  const entries = await readdir(SOURCE, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".ts"));
  const paths = files.map((entry) => join(entry.parentPath, entry.name));
  // The daemon's lines are those of its sandbox, whose form is the wire's.
  const ours = paths.filter((path) => !path.includes("/envd/") && !path.includes("/gen/"));
  return Promise.all(ours.map(async (path) => ({ path, text: await readFile(path, "utf8") })));
}

test("E59 no log call has an error under another key than err", async () => {
  const sources = await readSources();
  const calls = sources.flatMap(({ path, text }) => callsIn(text).map((call) => ({ path, call })));
  expect(calls.length).toBeGreaterThan(MIN_CALLS);
  expect(calls.filter(({ call }) => isWrong(call))).toEqual([]);
  const entries = sources.filter(({ text }) => WRONG_ENTRY_PATTERN.test(text));
  expect(entries.map(({ path }) => path)).toEqual([]);
});

test.for([
  '{ error }, "failed"',
  '{ op: "x", error: fault }, "failed"',
  '{ op: "x", reason: errorText(error) }, "failed"',
  '{ op: "x", failure }, "failed"',
  '{ op: "x" }, `failed: ${error.message}`',
])("a wrong call is found: %s", (call) => {
  expect(isWrong(call)).toBe(true);
});
