/**
 * Lines that were edited on a terminal: a shell or REPL moves the cursor within the line and writes
 * over it. A line is rendered as the terminal showed it in the end.
 */

import { ANSI_SOURCE, ESCAPE } from "./terminal-codes.ts";

const BACKSPACE = "\b";

/** Moves within a line, and changes of what is right of the cursor. */
const EDIT_PATTERN = new RegExp(`${ESCAPE}\\[[0-9]*[CDGPX@]|${BACKSPACE} ${BACKSPACE}`);
/** A move to another column, as tables have them between their cells. */
const COLUMN_PATTERN = new RegExp(`${ESCAPE}\\[[0-9]*[CG]`, "g");
/** A move to another line; programs that draw a whole screen have these in the place of line ends. */
const JUMP_PATTERN = new RegExp(`${ESCAPE}\\[[0-9]+(?:;[0-9]+)?[Hf]`, "g");
/** One command that is applied, another code, or one character. */
const TOKEN_PATTERN = new RegExp(
  `${ESCAPE}\\[(?<digits>[0-9]*)(?<command>[CDGKPX@])|(?<other>${ANSI_SOURCE})|[^]`,
  "gu",
);

/** A longer line was not edited by hand; each insertion costs the length of its line. */
const MAX_LINE_CHARACTERS = 4_096;

/** Applies the moves in every line that was edited; other lines keep what is in them. */
export function applyCursorMoves(text: string): string {
  if (!text.includes(ESCAPE) && !text.includes(BACKSPACE)) return text;
  const lines = text.replaceAll(JUMP_PATTERN, "\n").split("\n");
  return lines.map((line) => renderMoves(line)).join("\n");
}

function renderMoves(line: string): string {
  if (!EDIT_PATTERN.test(line)) return line;
  // Of a long line only the columns of a table stay apart.
  return line.length <= MAX_LINE_CHARACTERS
    ? renderLine(line)
    : line.replaceAll(COLUMN_PATTERN, " ");
}

function renderLine(line: string): string {
  const cells: string[] = [];
  let column = 0;

  function move(to: number): void {
    column = Math.min(Math.max(0, to), MAX_LINE_CHARACTERS);
    while (cells.length < column) cells.push(" ");
  }

  function edit(command: string, count: number, isGiven: boolean): void {
    if (command === "C") move(column + count);
    else if (command === "D") move(column - count);
    else if (command === "G") move(count - 1);
    else if (command === "P") cells.splice(column, count);
    else if (command === "@") {
      cells.splice(column, 0, ...Array(Math.min(count, MAX_LINE_CHARACTERS)).fill(" "));
    } else if (command === "X") {
      for (let at = column; at < Math.min(column + count, cells.length); at += 1) cells[at] = " ";
    } else if (!isGiven) cells.length = column;
    else eraseFor(count);
    cells.length = Math.min(cells.length, MAX_LINE_CHARACTERS);
  }

  /** The forms of "erase in line" with a number: 0 right of the cursor, 1 left of it, 2 all. */
  function eraseFor(form: number): void {
    const end = form === 0 ? cells.length : Math.min(column + 1, cells.length);
    if (form === 0) cells.length = column;
    else for (let at = 0; at < (form === 2 ? cells.length : end); at += 1) cells[at] = " ";
  }

  for (const { 0: token, groups: { digits = "", command, other } = {} } of line.matchAll(
    TOKEN_PATTERN,
  )) {
    if (command !== undefined) edit(command, Number(digits || "1"), digits !== "");
    else if (other !== undefined) continue;
    else if (token === BACKSPACE) move(column - 1);
    else if (token === "\r") move(0);
    else {
      cells[column] = token;
      column += 1;
    }
  }
  return cells.join("");
}
