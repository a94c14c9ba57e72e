/** `.dockerignore`: which paths of a folder a build does not see. The last pattern that fits counts. */

import { SandboxError } from "../../common/errors.ts";
import { toMatcher } from "./wildcard.ts";

/** Patterns of a file are few; a path is matched against each. */
const MAX_PATTERNS = 1_000;

/** Whether a path, relative and with `/` between its parts, is left out. */
export type IsIgnored = (path: string) => boolean;

/** @throws SandboxError invalid_argument for a pattern that is none, and for too many. */
export function readIgnoreFile(text: string): IsIgnored {
  const lines = text
    .replace(/^\uFEFF/, "")
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
  if (lines.length > MAX_PATTERNS) {
    throw new SandboxError(
      "invalid_argument",
      `.dockerignore has at most ${MAX_PATTERNS} patterns, not ${lines.length}`,
    );
  }
  const rules = lines.map((line) => {
    const isException = line.startsWith("!");
    return { isException, fits: toMatcher(toPath(isException ? line.slice(1) : line)) };
  });
  return (path) => {
    // What is below a match matches.
    const parts = path.split("/");
    const places = parts.map((_part, index) => parts.slice(0, index + 1).join("/"));
    let isIgnored = false;
    for (const { isException, fits } of rules) {
      if (isIgnored === isException && places.some(fits)) isIgnored = !isException;
    }
    return isIgnored;
  };
}

function toPath(text: string): string {
  return text
    .trim()
    .replaceAll(/\/{2,}/g, "/")
    .replace(/^(?:\.?\/)+/, "")
    .replace(/\/$/, "");
}
