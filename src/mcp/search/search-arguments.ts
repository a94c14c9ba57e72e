/** How ripgrep and grep are called for a search. */

import { skippedBy } from "./search-paths.ts";

/** What is searched for, and where. */
export interface SearchTerms {
  /** A regular expression. */
  readonly pattern: string;
  /** Absolute. */
  readonly path: string;
  /** Names of files, without a slash. */
  readonly glob: string | undefined;
  readonly limit: number;
  readonly context: number;
}

/** The program of a search, and what it is told to search. */
export interface Means {
  readonly program: "ripgrep" | "grep";
  readonly paths: readonly string[];
}

const RIPGREP = "rg --json --binary --no-config --no-ignore --hidden --sort path".split(" ");
const GREP = "grep -rnHIZP --no-group-separator".split(" ");

/** The command of a search. */
export function argumentsOf(terms: SearchTerms, { program, paths }: Means): readonly string[] {
  const { pattern, path, glob, limit, context } = terms;
  const skipped = skippedBy(path);
  if (program === "ripgrep") {
    const filters = [
      ...(glob === undefined ? [] : ["--glob", glob]),
      ...skipped.flatMap((name) => ["--glob", `!${name.startsWith("/") ? "" : "**/"}${name}/**`]),
    ];
    const counts = ["--context", String(context), "--max-count", String(limit + 1)];
    const options = [...lineEnds(pattern), ...counts, ...filters];
    return [...RIPGREP, ...options, "--regexp", pattern, "--", ...paths];
  }
  const counts = [`--context=${context}`, `--max-count=${limit + 1}`];
  return [...GREP, ...counts, ...grepFilters(terms), "-e", grepPattern(pattern), "--", ...paths];
}

const CARRIAGE_RETURN = /\r|\\(?:r|x0d|u000d|U0000000d|[xu]\{0*d\})/i;

/** With CRLF as the end of a line ripgrep refuses a pattern that names a carriage return. */
export function lineEnds(pattern: string): readonly string[] {
  return namesReturn(pattern) ? [] : ["--crlf"];
}

function namesReturn(pattern: string): boolean {
  return CARRIAGE_RETURN.test(pattern.replaceAll(String.raw`\\`, ""));
}

/** The same for grep, which knows no such option; a pattern may begin with such words itself. */
export function grepPattern(pattern: string): string {
  const isPlain = namesReturn(pattern) || pattern.startsWith("(*");
  return isPlain ? pattern : `(*ANYCRLF)(?m)${pattern}`;
}

export function grepFilters({ path, glob }: SearchTerms): readonly string[] {
  return [
    "--devices=skip",
    ...(glob === undefined ? [] : expandBraces(glob).map((each) => `--include=${each}`)),
    ...skippedBy(path).map((name) => `--exclude-dir=${name}`),
  ];
}

/** The names of one group of alternatives, `*.{ts,tsx}`, which grep does not know. */
function expandBraces(glob: string): readonly string[] {
  const group = /^([^{}]*)\{([^{}]*)\}([^{}]*)$/.exec(glob);
  if (group === null) return [glob];
  const [, before = "", names = "", after = ""] = group;
  return names.split(",").map((name) => `${before}${name}${after}`);
}
