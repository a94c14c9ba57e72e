/** `.dockerignore`: which paths of a folder a build does not see. The last pattern that fits counts. */

import { posix } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { isPattern, toMatcher } from "./wildcard.ts";

/** Patterns of a file are few; a path is matched against each. */
const MAX_PATTERNS = 1_000;

/** Paths are relative, with `/` between their parts. */
export interface IgnoreRules {
  /** Whether it is left out. */
  isIgnored(path: string): boolean;
  /** Whether anything below an ignored folder can be an exception. */
  hasExceptionBelow(path: string): boolean;
}

export const NOTHING_IGNORED: IgnoreRules = {
  isIgnored: () => false,
  hasExceptionBelow: () => false,
};

/** @throws SandboxError invalid_argument for a pattern that is none, and for too many. */
export function readIgnoreFile(text: string): IgnoreRules {
  const lines = text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.trim())
    .filter((line) => line !== "");
  if (lines.length > MAX_PATTERNS) {
    throw new SandboxError(
      "invalid_argument",
      `.dockerignore has at most ${MAX_PATTERNS} patterns, not ${lines.length}`,
    );
  }
  const rules = lines.map((line) => {
    const isException = line.startsWith("!");
    const given = isException ? line.slice(1).trim() : line;
    if (given === "") throw new SandboxError("invalid_argument", "not a pattern of paths: !");
    const pattern = toPath(given);
    return { isException, parts: pattern.split("/"), fits: toMatcher(pattern) };
  });
  return {
    isIgnored(path) {
      // What is below a match matches.
      const parts = path.split("/");
      const places = parts.map((_part, index) => parts.slice(0, index + 1).join("/"));
      let isIgnored = false;
      for (const { isException, fits } of rules) {
        if (isIgnored === isException && places.some(fits)) isIgnored = !isException;
      }
      return isIgnored;
    },
    hasExceptionBelow(path) {
      const folder = path.split("/");
      return rules.some(({ isException, parts }) => isException && leadsBelow(parts, folder));
    },
  };
}

/** Whether a pattern can match below a folder and not the folder itself, by its parts. */
function leadsBelow(pattern: readonly string[], folder: readonly string[]): boolean {
  const at = pattern.findIndex((part, index) => isPattern(part) || part !== folder[index]);
  const part = pattern[at];
  return part !== undefined && (isPattern(part) || at >= folder.length);
}

/** As docker cleans it, by its text alone: the root counts as the folder. */
function toPath(text: string): string {
  return posix.normalize(text).replace(/\/$/, "").replace(/^\//, "");
}
