/** What V8 is given of a cell of JavaScript or TypeScript. */

import { stripTypeScriptTypes } from "node:module";
import { findImports } from "./javascript-imports.mjs";

/**
 * A cell as a script: without types where it has any, and with its imports as calls.
 * `findFault(code)` is that of `createFaultFinder`.
 * @throws RangeError for a cell whose imports are too many to be found.
 */
export function toScript(code, findFault) {
  const plain = withCalls(code, findFault);
  if (plain.isScript) return plain.script;
  const untyped = withoutTypes(code);
  return untyped === code ? plain.script : withCalls(untyped, findFault).script;
}

/** Node 26 can only take types away: what TypeScript makes code of, as an enum, is a fault there. */
const mode = findMode();

function findMode() {
  try {
    stripTypeScriptTypes("", { mode: "transform" });
    return "transform";
  } catch {
    return "strip";
  }
}

function withoutTypes(code) {
  try {
    return stripTypeScriptTypes(code, { mode });
  } catch (error) {
    if (error.code !== "ERR_INVALID_TYPESCRIPT_SYNTAX") throw error;
    // V8 tells the fault with its place.
    return code;
  }
}

/** A cell may declare these names for itself, in the scope that all scripts and modules share. */
const { Error, JSON, Object } = globalThis;
const LOAD = 'globalThis[Symbol.for("sandbox.kernel")].load';

/** A script has no imports: those of modules become declarations, calls become calls of a helper. */
function withCalls(code, findFault) {
  const { imports, isScript } = findImports(code, findFault);
  const parts = [];
  let end = 0;
  for (const found of imports) {
    parts.push(code.slice(end, found.start), replacementOf(found, code));
    end = found.end;
  }
  return { script: parts.join("") + code.slice(end), isScript };
}

function replacementOf({ start, end, bindings, specifier, attributes }, code) {
  if (bindings === undefined) return LOAD;
  const [first, second] = bindings;
  const options = Object.keys(attributes).length > 0 ? [{ with: attributes }] : [];
  const parameters = [specifier, ...options].map((value) => JSON.stringify(value)).join(", ");
  const more = second === undefined ? "" : `, ${second} = ${first}`;
  // Lines keep their numbers.
  const lines = code.slice(start, end).match(/\r\n|[\n\r\u2028\u2029]/g) ?? [];
  return `var ${first} = await ${LOAD}(${parameters})${more};${"\n".repeat(lines.length)}`;
}

const PREFIX = "(async () => {\n";

/** By the inspector: V8 tells the place of a fault to nobody else. */
export function createFaultFinder(session) {
  return (code) => {
    // Enabled, it would keep and repeat what cells print.
    call(session, "Runtime.discardConsoleEntries");
    call(session, "Runtime.enable");
    try {
      const options = { sourceURL: "", persistScript: false };
      const expression = `${PREFIX}${code}\n})`;
      const { exceptionDetails } = call(session, "Runtime.compileScript", {
        expression,
        ...options,
      });
      if (exceptionDetails === undefined) return undefined;
      return offsetOf(code, exceptionDetails.lineNumber - 1) + exceptionDetails.columnNumber;
    } finally {
      call(session, "Runtime.disable");
    }
  };
}

/** Of a line, as V8 counts lines. */
function offsetOf(code, line) {
  const ends = /\r\n|[\n\r\u2028\u2029]/g;
  for (let count = 0; count < line; count += 1) {
    if (ends.exec(code) === null) return code.length;
  }
  return ends.lastIndex;
}

/** A session of the same thread answers at once. */
function call(session, method, parameters = {}) {
  let outcome = {};
  session.post(method, parameters, (error, result) => {
    if (error) throw new Error(error.message);
    outcome = result;
  });
  return outcome;
}
