/**
 * The instructions of a Dockerfile as docker finds them: lines that are continued, comments between
 * them and here-documents behind them.
 * @see https://github.com/moby/buildkit/blob/v0.17.0/frontend/dockerfile/parser/parser.go
 */

import { SandboxError } from "../../common/errors.ts";
import { tryParseJson } from "../../common/json.ts";

export interface HereDocument {
  readonly name: string;
  /** Whether the tabs before its lines are none of its text. */
  readonly isIndented: boolean;
  readonly lines: readonly string[];
}

export interface InstructionText {
  /** In capitals. */
  readonly keyword: string;
  readonly line: number;
  /** What stands behind the keyword, in one line. */
  readonly content: string;
  readonly documents: readonly HereDocument[];
}

const COMMENT = /^\s*#/;
const DIRECTIVE = /^#\s*(?<name>[a-z][a-z0-9]*)\s*=\s*(?<value>.+?)\s*$/i;
/** Several backslashes at the end of a line do not continue it. */
const CONTINUED = /(^|[^\\])\\[ \t]*$/;
const INSTRUCTION = /^(?<keyword>[^ \t\v\f\r]+)(?<content>.*)$/s;
const WITH_DOCUMENTS: ReadonlySet<string> = new Set(["ADD", "COPY", "RUN"]);
/** Quoted texts and escaped characters are parts of a word. */
const WORD = /(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+/gs;
const DOCUMENT = /^\d*<<(?<dash>-?)(?<rest>[^<]+)$/;

interface Cursor {
  readonly lines: readonly string[];
  at: number;
}

/** @throws SandboxError invalid_argument for a here-document without an end, and another escape character */
export function* readInstructions(text: string, fileName: string): Generator<InstructionText> {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  requireBackslash(lines, fileName);
  const cursor: Cursor = { lines, at: 0 };
  while (cursor.at < lines.length) {
    const line = cursor.at + 1;
    const whole = readContinued(cursor).trim();
    const { keyword: given = "", content: rest = "" } = INSTRUCTION.exec(whole)?.groups ?? {};
    if (given === "") continue;
    const keyword = given.toUpperCase();
    const content = rest.trim();
    const documents = documentWords(keyword, content).flatMap((word) => {
      const head = readDocumentHead(word);
      if (head === undefined) return [];
      const body = readBody(cursor, head);
      if (body !== undefined) return [{ ...head, lines: body }];
      const fault = `has a here-document ${head.name} that does not end`;
      throw new SandboxError("invalid_argument", `${fileName}:${line}: ${keyword} ${fault}`);
    });
    yield { keyword, line, content, documents };
  }
}

/** The words of an instruction of which some may begin here-documents; those of an ONBUILD are of what it holds. */
function documentWords(keyword: string, content: string): string[] {
  const held = keyword === "ONBUILD" ? INSTRUCTION.exec(content)?.groups : { keyword, content };
  const text = held?.["content"]?.trim() ?? "";
  const mayHave = WITH_DOCUMENTS.has(held?.["keyword"]?.toUpperCase() ?? "");
  return mayHave && readList(text) === undefined ? splitWords(text) : [];
}

/** The words of a list in JSON; undefined for any other form. */
export function readList(content: string): string[] | undefined {
  if (!content.startsWith("[")) return undefined;
  const list = tryParseJson(content);
  const isList = Array.isArray(list) && list.every((word) => typeof word === "string");
  return isList ? list : undefined;
}

/** Of a word that begins a here-document; undefined for any other text. */
export function readDocumentHead(word: string): Omit<HereDocument, "lines"> | undefined {
  const { dash, rest = "" } = DOCUMENT.exec(word)?.groups ?? {};
  const [only, ...others] = splitWords(rest);
  if (only === undefined || others.length > 0) return undefined;
  const name = only.replaceAll(/'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)/gs, "$1$2$3");
  return name === "" ? undefined : { name, isIndented: dash === "-" };
}

/** Directives are the first lines alone. */
function requireBackslash(lines: readonly string[], fileName: string): void {
  for (const [index, line] of lines.entries()) {
    const { name, value } = DIRECTIVE.exec(line.trim())?.groups ?? {};
    if (name === undefined) return;
    if (name.toLowerCase() !== "escape" || value === "\\") continue;
    const fault = "another escape character than \\ is not supported";
    throw new SandboxError("invalid_argument", `${fileName}:${index + 1}: ${fault}`);
  }
}

/** Comments and empty lines between lines that are continued do not end them. */
function readContinued(cursor: Cursor): string {
  let whole = "";
  for (let isFirst = true; cursor.at < cursor.lines.length; isFirst = false) {
    const line = cursor.lines[cursor.at] ?? "";
    cursor.at += 1;
    if (COMMENT.test(line) || line.trim() === "") {
      if (isFirst) return "";
      continue;
    }
    if (!CONTINUED.test(line)) return whole + line;
    whole += line.replace(CONTINUED, "$1");
  }
  return whole;
}

/** None where a quote does not end. */
function splitWords(text: string): string[] {
  return text.replaceAll(WORD, "").trim() === "" ? (text.match(WORD) ?? []) : [];
}

/** Undefined where the file ends first. */
function readBody(
  cursor: Cursor,
  { name, isIndented }: Omit<HereDocument, "lines">,
): string[] | undefined {
  const start = cursor.at;
  while (cursor.at < cursor.lines.length) {
    const line = cursor.lines[cursor.at] ?? "";
    cursor.at += 1;
    const isEnd = (isIndented ? line.replace(/^\t+/, "") : line) === name;
    if (isEnd) return cursor.lines.slice(start, cursor.at - 1);
  }
  return undefined;
}
