/** The codes that programs write for a terminal, as a regular expression. */

export const ESCAPE = String.fromCodePoint(0x1b);
const BELL = String.fromCodePoint(0x07);
const CSI = String.fromCodePoint(0x9b);

/** Control sequences, operating system commands, device strings, and short escapes. */
export const ANSI_SOURCE = [
  `(?:${ESCAPE}\\[|${CSI})[0-?]*[ -/]*[@-~]`,
  `${ESCAPE}\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?`,
  `${ESCAPE}[PX^_][^${ESCAPE}]*(?:${ESCAPE}\\\\)?`,
  `${ESCAPE}[ -/]*[0-~]`,
].join("|");
