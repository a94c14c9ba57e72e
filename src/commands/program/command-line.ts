/** A command of this program as the person who started it can type it. */

import { realpathSync } from "node:fs";
import { join } from "node:path";
import { quoteWord } from "../../common/shell-word.ts";
import type { Config } from "../../config.ts";

const NAME = "sandbox-mcp";
/** Without installing anything. */
const BY_NPX = `npx -y ${NAME}`;

/**
 * The command with these words: by its name where that is on the path, by npx where npm put it into
 * a folder of packages, by its file else; for the home that was chosen.
 */
export function commandLine(
  config: Pick<Config, "searchPath" | "givenHome">,
  words: string,
): string {
  const home = config.givenHome === undefined ? "" : ` --home ${quoteWord(config.givenHome)}`;
  return `${programWords(config.searchPath)} ${words}${home}`;
}

function programWords(searchPath: string): string {
  const [, file = ""] = process.argv;
  const program = realPath(file);
  if (program === undefined) return BY_NPX;
  // npx puts its own folder first for what it starts, and for no other program.
  const folders = searchPath.split(":").filter((folder) => !folder.endsWith("node_modules/.bin"));
  if (folders.some((folder) => realPath(join(folder, NAME)) === program)) return NAME;
  return program.includes("/node_modules/") ? BY_NPX : `node ${quoteWord(program)}`;
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    // Not there, or nothing that this user may see: then it is not what was started.
    return undefined;
  }
}
