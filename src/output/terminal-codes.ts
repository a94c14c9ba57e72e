/** The codes that programs write for a terminal, as a regular expression. */

export const ESCAPE = String.fromCodePoint(0x1b);
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
