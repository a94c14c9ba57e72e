/**
 * Finds the imports of a cell. V8 says where they stand: each `import` of the text becomes `export`,
 * which is as long and which no expression may contain, so that the first fault of a compilation is
 * the first import that is code. In texts, comments and regular expressions both words are valid.
 */

import { SourceTextModule } from "node:vm";

/** A cell may declare these names for itself, in the scope that all scripts and modules share. */
const { Object, RangeError, RegExp } = globalThis;
/** Of one cell, together with its characters: a compilation cannot be interrupted. */
const MAX_COMPILED = 512;
const MAX_COMPILED_CHARACTERS = 128 * 1024 * 1024;
const MAX_STATEMENT_CHARACTERS = 65_536;
/** Quotes in comments of a statement, and braces behind it, where its end is looked for. */
const MAX_ENDS = 64;
const KEYWORD = "import";
const MASK = "export";
const STRING = /"(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*'/.source;
const STRING_OR_COMMENT = new RegExp(`${STRING}|/\\*[^]*?\\*/|//[^\\n\\r\\u2028\\u2029]*`, "g");

/**
 * The imports of a cell in their order: calls by their keyword alone, statements whole, with their
 * `bindings`, `specifier` and `attributes`. `findFault(code)` compiles a code, and returns the offset
 * of its first fault; `isScript` says whether there is none but imports.
 * @throws RangeError for a cell whose imports are too many to be found.
 */
export function findImports(code, findFault) {
  const imports = [];
  const compile = createLimitedCompiler();
  let masked = code.replaceAll(KEYWORD, MASK);
  // An import that is code, and valid as a call unless V8 stops there again.
  let call;
  for (;;) {
    const start = compile(masked, findFault);
    const isFound = start === undefined || code.startsWith(KEYWORD, start);
    if (call !== undefined && start !== call.start && isFound) imports.push(call);
    if (start === undefined || !isFound) return { imports, isScript: start === undefined };
    if (masked.startsWith(MASK, start)) {
      call = { start, end: start + KEYWORD.length };
      masked = replaceAt(masked, start, KEYWORD);
      continue;
    }
    call = undefined;
    const statement = findStatement(code, start, compile);
    if (statement === undefined) return { imports, isScript: false };
    imports.push(statement);
    masked = replaceAt(masked, start, ";".padEnd(statement.end - start));
  }
}

function createLimitedCompiler() {
  let count = 0;
  let characters = 0;
  return (code, compile) => {
    count += 1;
    characters += code.length;
    if (count > 1 && (count > MAX_COMPILED || characters > MAX_COMPILED_CHARACTERS)) {
      throw new RangeError("the cell has too many imports, or is too large for them");
    }
    return compile(code);
  };
}

function replaceAt(text, start, part) {
  return text.slice(0, start) + part + text.slice(start + part.length);
}

/** The shortest text from there on that is a module of one import; attributes may follow. */
function findStatement(code, start, compile) {
  const text = code.slice(start, start + MAX_STATEMENT_CHARACTERS);
  const bare = findEnd(text, { pattern: /["']/g, compile, isWanted: () => true });
  if (bare === undefined) return undefined;
  const attributed = /^[^;]*?\bwith\b/.test(text.slice(bare.end, bare.end + 256))
    ? findEnd(text, { pattern: /\}/g, from: bare.end, compile, isWanted: hasAttributes })
    : undefined;
  const bindings = bindingsOf(text.slice(0, bare.end));
  const { end, request } = attributed ?? bare;
  return bindings && { start, end: start + end, bindings, ...request };
}

function hasAttributes({ attributes }) {
  return Object.keys(attributes).length > 0;
}

function findEnd(text, { pattern, from = 0, compile, isWanted }) {
  pattern.lastIndex = from;
  for (let count = 0; count < MAX_ENDS; count += 1) {
    const found = pattern.exec(text);
    if (found === null) return undefined;
    const end = found.index + 1;
    const [request, ...others] = compile(text.slice(0, end), requestsOf);
    if (request !== undefined && others.length === 0 && isWanted(request)) return { end, request };
  }
  return undefined;
}

function requestsOf(text) {
  try {
    const { moduleRequests, dependencySpecifiers } = new SourceTextModule(text);
    // node 24.3 and older tell no attributes.
    return (
      moduleRequests ?? dependencySpecifiers.map((specifier) => ({ specifier, attributes: {} }))
    );
  } catch {
    return [];
  }
}

/** What a statement declares, as patterns for its namespace. V8 has taken the statement. */
function bindingsOf(statement) {
  const plain = statement.replaceAll(STRING_OR_COMMENT, (part) => (part[0] === "/" ? " " : part));
  const clause = new RegExp(`^import([^]*?)(?:\\bfrom\\s*)?(?:${STRING})$`).exec(plain)?.[1].trim();
  if (clause === "") return ["{}"];
  const parts = /^([^\s,{*]+)?[\s,]*(?:\*\s*as\s+(\S+)|\{([^]*)\})?$/.exec(clause ?? "{");
  if (parts === null) return undefined;
  const [, first, namespace, named] = parts;
  const names = named === undefined ? [] : namesOf(named);
  if (first !== undefined) names.unshift(`default: ${first}`);
  return [
    ...(namespace === undefined ? [] : [namespace]),
    ...(namespace === undefined || names.length > 0 ? [`{ ${names.join(", ")} }`] : []),
  ];
}

function namesOf(named) {
  const item = new RegExp(`(${STRING}|[^\\s,"']+)(?:\\s*\\bas\\s+([^\\s,]+))?\\s*(?:,|$)`, "g");
  return [...named.matchAll(item)].map(([, name, local]) => `${name}: ${local ?? name}`);
}
