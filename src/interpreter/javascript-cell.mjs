/** What V8 is given of a cell of JavaScript or TypeScript. */

import { stripTypeScriptTypes } from "node:module";
import { Script } from "node:vm";

/** A cell as a script: without types where it has any, and with its imports as calls. */
export function toScript(code, language) {
  const isTyped = language === "typescript" || !isScript(withCalls(code));
  return withCalls(isTyped ? withoutTypes(code) : code);
}

function isScript(code) {
  try {
    const script = new Script(`(async () => {\n${code}\n})`);
    return script.cachedDataRejected !== true;
  } catch {
    return false;
  }
}

function withoutTypes(code) {
  try {
    return stripTypeScriptTypes(code, { mode: "transform" });
  } catch (error) {
    if (error.code !== "ERR_INVALID_TYPESCRIPT_SYNTAX") throw error;
    // V8 tells the fault with its place.
    return code;
  }
}

const LOAD = 'await globalThis[Symbol.for("sandbox.kernel")].load';
const IMPORT =
  /^[ \t]*import\s+(?:(?<clause>[\w$*{][^;'"()]*?)\s+from\s+)?(?<quoted>"[^"\n]+"|'[^'\n]+')(?:\s+with\s*\{[^}]*\})?[ \t]*;?/gm;

/** Imports at the beginning of a line as calls of import, since a script has no others. */
function withCalls(code) {
  return code
    .replace(IMPORT, (whole, clause, quoted) => {
      const call = `${LOAD}(${quoted})`;
      return clause === undefined ? `${call};` : `${bindings(clause)} = ${call};`;
    })
    .replace(/(?<![\w$.])import\s*\(/g, 'globalThis[Symbol.for("sandbox.kernel")].load(');
}

function bindings(clause) {
  const all = /^\*\s+as\s+([\w$]+)$/.exec(clause);
  if (all !== null) return `var ${all[1]}`;
  const [, first, named] = /^([\w$]+)?\s*,?\s*(\{[^}]*\})?$/.exec(clause) ?? [];
  const parts = (named ?? "{}").slice(1, -1).replaceAll(/\s+as\s+/g, ": ");
  const list = [...(first === undefined ? [] : [`default: ${first}`]), parts].filter((part) =>
    part.trim(),
  );
  return `var { ${list.join(", ")} }`;
}
