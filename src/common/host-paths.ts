/** Paths of the machine, which no client is told; what they were stays in the log. */

const HIDDEN = "(path)";

/** Absolute paths in quotation marks, file addresses, and absolute paths up to a space. */
const QUOTED_PATTERN = /(['"`])(?:file:\/\/)?\/[^'"`]*\1/g;
const FILE_PATTERN = /\bfile:\/\/[^\s'"`]+/g;
const PLAIN_PATTERN = /(?<![\w./:-])\/[^\s'"`]*[^\s'"`:;,.)\]}]/g;
/** Below a folder of ours, also where its beginning was cut. */
const OWN_PATTERN = /[^\s'"`(]*(?:node_modules|sandbox-mcp|\.part)\/[^\s'"`]*[^\s'"`:;,.)\]}]/g;

/** The text without absolute paths; addresses of pages stay. */
export function hidePaths(text: string): string {
  return text
    .replaceAll(QUOTED_PATTERN, (_, mark: string) => mark + HIDDEN + mark)
    .replaceAll(FILE_PATTERN, HIDDEN)
    .replaceAll(PLAIN_PATTERN, HIDDEN)
    .replaceAll(OWN_PATTERN, (found) => (found.includes("://") ? found : HIDDEN));
}
