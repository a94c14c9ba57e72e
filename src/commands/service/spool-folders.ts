/** Where the spools of a service lie in the home. */

import { join } from "node:path";
import { sha256Hex } from "../../common/hash.ts";
import type { Config } from "../../config.ts";
import { DEFAULT_TEAM } from "../../store/store.ts";

const SPOOL = "spool";
const LOCAL = "local";
const SCOPE_CHARACTERS = 16;

/** Of this machine's own service. */
export function localSpoolFolder(home: string, team: string = DEFAULT_TEAM): string {
  return join(home, SPOOL, team === DEFAULT_TEAM ? LOCAL : `team-${team}`);
}

/** Of the service that this configuration names. */
export function spoolFolderOf(config: Config): string {
  return config.engine === "remote" ? remoteSpoolFolder(config) : localSpoolFolder(config.home);
}

/** Of a remote service, apart for each key. */
function remoteSpoolFolder({ home, remote }: Config): string {
  const parts = [remote?.apiUrl ?? "", remote?.domain ?? "", remote?.apiKey ?? ""];
  const hash = sha256Hex(JSON.stringify(parts));
  return join(home, SPOOL, `remote-${hash.slice(0, SCOPE_CHARACTERS)}`);
}

/** The folder of all of them. */
export function spoolHome(home: string): string {
  return join(home, SPOOL);
}
