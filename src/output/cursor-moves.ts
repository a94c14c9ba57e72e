/**
 * Lines that were edited on a terminal: a shell or REPL moves the cursor within the line and writes
 * over it. A line is rendered as the terminal showed it in the end.
 */

const ESCAPE = String.fromCodePoint(0x1b);
const BELL = String.fromCodePoint(0x07);
const CSI = String.fromCodePoint(0x9b);

/**
 * Control sequences, operating system commands, device strings, and short escapes. A command or
 * string without its end takes no more than the rest of its line: what follows is output.
 */
export const ANSI_SOURCE = [
  `(?:${ESCAPE}\\[|${CSI})[0-?]*[ -/]*[@-~]`,
  `${ESCAPE}\\](?:[^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)|[^${BELL}${ESCAPE}\n]*)`,
  `${ESCAPE}[PX^_](?:[^${ESCAPE}]*${ESCAPE}\\\\|[^${ESCAPE}\n]*)`,
  `${ESCAPE}[ -/]*[0-~]`,
].join("|");

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

/** A longer line was not edited by hand. */
const MAX_LINE_CHARACTERS = 4_096;
/** Of a line's length: what moves make of it. Beyond it a few bytes would fill a reply with spaces. */
const MAX_GROWTH = 6;
/** Of a line's length: the cells that its commands touch, each insertion all that is right of it. */
const MAX_WORK = 128;

/** Applies the moves in every line that was edited; other lines keep what is in them. */
export function applyCursorMoves(text: string): string {
  if (!text.includes(ESCAPE) && !text.includes(BACKSPACE)) return text;
  const lines = text.replaceAll(JUMP_PATTERN, "\n").split("\n");
  return lines.map((line) => renderMoves(line)).join("\n");
}

function renderMoves(line: string): string {
  if (!EDIT_PATTERN.test(line)) return line;
  const rendered = line.length <= MAX_LINE_CHARACTERS ? renderLine(line) : undefined;
  // Of a line that is too long only the columns of a table stay apart.
  return rendered ?? line.replaceAll(COLUMN_PATTERN, " ");
}

/** Undefined for a line that would become too long, or cost too much. */
function renderLine(line: string): string | undefined {
  const maxCells = Math.min(MAX_LINE_CHARACTERS, MAX_GROWTH * line.length);
  const maxWork = MAX_WORK * line.length;
  const cells: string[] = [];
  let column = 0;
  let work = 0;

  function move(to: number): void {
    column = Math.min(Math.max(0, to), maxCells + 1);
    work += Math.max(0, column - cells.length);
    while (cells.length < column) cells.push(" ");
  }

  function edit(command: string, count: number, isGiven: boolean): void {
    if (command === "C") move(column + count);
    else if (command === "D") move(column - count);
    else if (command === "G") move(count - 1);
    else change(command, count, isGiven);
  }

  function change(command: string, count: number, isGiven: boolean): void {
    work += cells.length;
    if (command === "P") cells.splice(column, count);
    else if (command === "@") {
      cells.splice(column, 0, ...Array(Math.min(count, maxCells + 1)).fill(" "));
    } else if (command === "X") {
      for (let at = column; at < Math.min(column + count, cells.length); at += 1) cells[at] = " ";
    } else if (!isGiven) cells.length = column;
    else eraseFor(count);
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
    if (cells.length > maxCells || work > maxWork) return undefined;
  }
  return cells.join("");
}
