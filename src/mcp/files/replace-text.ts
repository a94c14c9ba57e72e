/** Replaces a string in a text; a line end of any kind in either matches that of the other. */

import { SandboxError } from "../../common/errors.ts";
import { placesOf } from "./text-places.ts";

/** An edited file that is larger than this is not written; many short strings can become long. */
const MAX_RESULT_CHARACTERS = 50_000_000;
/** Each is a piece of the text and a line of the reply: millions of them take the server seconds. */
const MAX_OCCURRENCES = 250_000;

export interface Replacement {
  readonly old_string: string;
  readonly new_string: string;
  readonly replace_all: boolean;
}

export interface Replaced {
  readonly count: number;
  /** The text as it was when there is not exactly one occurrence and not all are to be replaced. */
  readonly after: string;
  /** Where each new text begins, in lines of the new text. */
  readonly lines: readonly number[];
  /** What a caller must know of line ends that were not as it wrote them. */
  readonly fact: string | undefined;
}

/**
 * The text with its occurrences replaced, and how many there were.
 * @throws SandboxError invalid_argument for too many occurrences, and a result that is too large.
 */
export function replaceText(before: string, edit: Replacement): Replaced {
  const { old_string: oldString, new_string: newString } = edit;
  const places = findOccurrences(before, edit);
  if (hasReturnsAlone(before) && !/\r(?!\n)/.test(oldString)) return replaceByReturns(before, edit);
  if (![before, oldString, newString].some((text) => text.includes("\r\n"))) {
    return join(before, places, edit);
  }
  // An old string with CRLF that is found is meant so: the line ends may be what is to be changed.
  if (oldString.includes("\r") && places.length > 0) return join(before, places, edit);
  return replaceAcross(before, edit);
}

/** As `read_file` shows with line feeds. */
function hasReturnsAlone(text: string): boolean {
  return text.includes("\r") && !text.includes("\n");
}

function replaceByReturns(before: string, edit: Replacement): Replaced {
  const old_string = edit.old_string.replaceAll("\r\n", "\n");
  const new_string = edit.new_string.replaceAll("\r\n", "\n");
  const plain = { ...edit, old_string, new_string };
  const replaced = replaceText(before.replaceAll("\r", "\n"), plain);
  const fact = new_string.includes("\n") ? "line ends kept: CR" : undefined;
  return { ...replaced, after: replaced.after.replaceAll("\n", "\r"), fact };
}

/** The old text with the new string at the places. */
function join(before: string, places: readonly number[], edit: Replacement): Replaced {
  const count = places.length;
  if (count !== 1 && !edit.replace_all) return { count, after: before, lines: [], fact: undefined };
  checkSize(before.length + count * (edit.new_string.length - edit.old_string.length));
  const newLines = countLines(edit.new_string);
  const parts: string[] = [];
  const lines: number[] = [];
  let [done, line] = [0, 1];
  for (const at of places) {
    const part = before.slice(done, at);
    parts.push(part);
    line += countLines(part);
    lines.push(line);
    line += newLines;
    done = at + edit.old_string.length;
  }
  parts.push(before.slice(done));
  return { count, after: parts.join(edit.new_string), lines, fact: undefined };
}

/** For a single replacement with overlaps: of two that share characters either could be meant. */
function findOccurrences(text: string, edit: Replacement): number[] {
  const options = { most: MAX_OCCURRENCES, overlap: !edit.replace_all };
  const places = placesOf(text, edit.old_string, options);
  if (places.length <= MAX_OCCURRENCES) return places;
  const message = `old_string occurs more than ${MAX_OCCURRENCES} times`;
  throw new SandboxError("invalid_argument", message);
}

function checkSize(characters: number): void {
  if (characters <= MAX_RESULT_CHARACTERS) return;
  const message = `the edited file would have ${characters} characters, the limit is ${MAX_RESULT_CHARACTERS}`;
  throw new SandboxError("invalid_argument", message);
}

function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Occurrences in the text as it is with line feeds alone, replaced in the text as it is. */
function replaceAcross(before: string, edit: Replacement): Replaced {
  const plain = before.replaceAll("\r\n", "\n");
  const wanted = edit.old_string.replaceAll("\r\n", "\n");
  const places = findOccurrences(plain, { ...edit, old_string: wanted });
  const newLines = edit.new_string.replaceAll("\r\n", "\n");
  const isWindows = !/(?<!\r)\n/.test(before) && before.includes("\r\n");
  const isUniform = isWindows || (before.includes("\n") && !before.includes("\r\n"));
  const count = places.length;
  if (count !== 1 && !edit.replace_all) return { count, after: before, lines: [], fact: undefined };
  // A line feed may become two characters.
  checkSize(before.length + count * 2 * newLines.length);
  const toPlace = createPlaces(before);
  const pieces: string[] = [];
  const lines: number[] = [];
  let fact: string | undefined;
  let [done, line] = [0, 1];
  for (const at of places) {
    const [start, end] = [toPlace(at), toPlace(at + wanted.length)];
    const first = /\r?\n/.exec(before.slice(start, end))?.[0];
    const lineEnd = first ?? (isWindows ? "\r\n" : "\n");
    // What a caller wrote for a file of mixed line ends, or of none, stays as it is written.
    const isKept = first === undefined && !isUniform;
    const text = isKept ? edit.new_string : newLines.replaceAll("\n", lineEnd);
    if (text !== edit.new_string) fact = `line ends kept: ${lineEnd === "\n" ? "LF" : "CRLF"}`;
    const old = before.slice(done, start);
    pieces.push(old, text);
    line += countLines(old);
    lines.push(line);
    line += countLines(text);
    done = end;
  }
  pieces.push(before.slice(done));
  return { count, after: pieces.join(""), lines, fact };
}

/** Maps rising places in the text with line feeds alone to places in the text itself. */
function createPlaces(before: string): (plainPlace: number) => number {
  let removed = 0;
  let next = before.indexOf("\r\n");
  return (plainPlace) => {
    // The line feed of the pair at `next` stands at `next - removed` in the plain text.
    while (next !== -1 && next - removed < plainPlace) {
      removed += 1;
      next = before.indexOf("\r\n", next + 2);
    }
    return plainPlace + removed;
  };
}
