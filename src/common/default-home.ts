/** Where the program keeps its things unless it is told otherwise. */

import { homedir } from "node:os";
import { join } from "node:path";
import { readPrivilege } from "./privilege.ts";

/** One place for the machine's root; for everybody else, root of a namespace too, the own data. */
export function defaultHome(environment: Readonly<Record<string, string | undefined>>): string {
  if (readPrivilege() === "machine") return "/var/lib/sandbox-mcp";
  const data = environment["XDG_DATA_HOME"];
  return join(
    data === undefined || data === "" ? join(homedir(), ".local/share") : data,
    "sandbox-mcp",
  );
}
