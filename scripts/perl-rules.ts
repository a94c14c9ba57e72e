/** The rules of the programs in `src/perl`, for one program's text; `check-perl.ts` reads them all. */

/** What a program does before anything else: strictures, and without a module. */
const STRICT = "use v5.14;";
const MAX_COLUMNS = 100;
const MAX_LINES = 300;

interface Rule {
  readonly name: string;
  /** A match in the code of a line breaks it. */
  readonly broken: RegExp;
}

const RULES: readonly Rule[] = [
  { name: "loads a module", broken: /^\s*(?:use(?! v5\.14;$)|no|require)\b/ },
  { name: "evaluates a string", broken: /\beval\b(?!\s*\{)/ },
  { name: "starts a shell", broken: /`|\bqx\b|\breadpipe\b|\b(?:exec|system)\b(?!\s*\{)/ },
  {
    name: "opens without a mode of its own",
    broken: /(?<![\w$&])open\b\s*(?=[(\w$])(?!\(?\s*[^,]+,\s*'[^']+',)/,
  },
  { name: "has a number for a system call", broken: /\bsyscall\b(?!\(?\s*\$call->\{\w+\})/ },
  {
    name: "loads a file by another name",
    broken: /\bdo\b(?!\s*\{)(?!\s*\(?\s*\$(?:0|table|path)\b)/,
  },
];

/** How a file is opened: all that is left of strings when they are taken out. */
const MODE = /^[+]?[<>]&?=?$/;

/** What breaks a rule, each with its line; `calls` are the names in the table of system calls. */
export function findFaults(text: string, calls: ReadonlySet<string>): string[] {
  const lines = text.split("\n");
  const statement = lines.find((line) => line !== "" && !line.startsWith("#"));
  const faults: string[] = [];
  if (!text.startsWith("# ")) faults.push("1: has no header");
  if (statement !== STRICT) faults.push(`1: does not begin with \`${STRICT}\``);
  if (lines.length - 1 > MAX_LINES) faults.push(`${lines.length - 1}: has too many lines`);
  for (const [index, line] of lines.entries()) {
    for (const fault of faultsOf(line, calls)) faults.push(`${index + 1}: ${fault}`);
  }
  return faults;
}

function faultsOf(line: string, calls: ReadonlySet<string>): string[] {
  const faults: string[] = [];
  if (line.length > MAX_COLUMNS) faults.push(`has more than ${MAX_COLUMNS} columns`);
  if (/[^\x20-\x7e]|\s$/.test(line)) faults.push("has space at its end, or what is not ASCII");
  const code = codeOf(line);
  for (const { name, broken } of RULES) if (broken.test(code)) faults.push(name);
  for (const [, name = ""] of code.matchAll(/\$call->\{(\w+)\}/g)) {
    if (!calls.has(name)) faults.push(`calls ${name}, which is not in the table`);
  }
  return faults;
}

/** A line without its comment and without the text of its strings, but for what they may be judged by. */
function codeOf(line: string): string {
  return line
    .replace(/(?:^|\s)#.*$/, "")
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')
    .replaceAll(/'((?:[^'\\]|\\.)*)'/g, (text, inner) => (MODE.test(inner) ? text : "''"));
}

/** The names in the text of the table of system calls. */
export function readCallNames(table: string): Set<string> {
  return new Set([...table.matchAll(/^ {4}(\w+) +=> \[/gm)].map((match) => match[1] ?? ""));
}
