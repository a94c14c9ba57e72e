/** `.dockerignore`: which paths of a folder a build does not see. The last pattern that fits counts. */

/** Patterns of a file are few; a path is matched against each. */
const MAX_PATTERNS = 1_000;

/** Whether a path, relative and with `/` between its parts, is left out. */
export type IsIgnored = (path: string) => boolean;

export function readIgnoreFile(text: string): IsIgnored {
  const rules = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .slice(0, MAX_PATTERNS)
    .map((line) => {
      const isException = line.startsWith("!");
      return { isException, pattern: toPattern(isException ? line.slice(1) : line) };
    });
  return (path) => {
    let isIgnored = false;
    for (const { isException, pattern } of rules) {
      if (isIgnored === isException && pattern.test(path)) isIgnored = !isException;
    }
    return isIgnored;
  };
}

/** `*` and `?` stay within a part of the path, `**` does not; what is below a match matches. */
function toPattern(text: string): RegExp {
  const path = text
    .trim()
    .replaceAll(/\/{2,}/g, "/")
    .replace(/^(?:\.?\/)+/, "")
    .replace(/\/$/, "");
  const source = path.replaceAll(/\*\*\/|\*\*|\*|\?|\[[^\]/]+\]|[^*?[]|\[/g, (piece) => {
    if (piece === "**/") return "(?:[^/]+/)*";
    if (piece === "**") return ".*";
    if (piece === "*") return "[^/]*";
    if (piece === "?") return "[^/]";
    if (piece.length > 2 && piece.startsWith("[")) return piece.replaceAll("\\", "\\\\");
    return piece.replaceAll(/[\\^$.|+(){}[\]]/g, String.raw`\$&`);
  });
  return new RegExp(`^${source}(?:/.*)?$`, "s");
}
