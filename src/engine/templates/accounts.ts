/** Accounts of a template: `root`, `user` and what the system's own packages need; people are not. */

/** The sandbox's user: id, group and home are part of what clients rely on. */
export const SANDBOX_USER = {
  name: "user",
  id: 1000,
  home: "/home/user",
  shell: "/bin/bash",
} as const;

const FIRST_PERSON = 1000;
const NOBODY = 65_534;
/** Any day will do; zero would ask for a new password. */
const PASSWORD_DAY = 19_000;

export interface Accounts {
  readonly passwd: string;
  readonly group: string;
  readonly shadow: string;
  readonly gshadow: string;
}

/** The same system accounts without any person, password or member, and the sandbox's user added. */
export function createAccounts(source: {
  readonly passwd: string;
  readonly group: string;
}): Accounts {
  const users = records(source.passwd).filter((fields) => isSystem(fields));
  const groups = records(source.group).filter((fields) => isSystem(fields));
  const { name, id, home, shell } = SANDBOX_USER;
  users.push([name, "x", String(id), String(id), "", home, shell]);
  if (!groups.some(([group]) => group === "sudo")) groups.push(["sudo", "x", "27", ""]);
  groups.push([name, "x", String(id), ""]);
  const memberOf = (group: string | undefined) => (group === "sudo" ? name : "");
  return {
    passwd: lines(users.map(([user = "", , ...rest]) => [user, "x", ...rest])),
    group: lines(groups.map(([group = "", , gid = ""]) => [group, "x", gid, memberOf(group)])),
    // No password fits a star: nobody logs in by one, and `su` from root needs none.
    shadow: lines(
      users.map(([user = ""]) => [user, "*", String(PASSWORD_DAY), "0", "99999", "7", "", "", ""]),
    ),
    gshadow: lines(groups.map(([group = ""]) => [group, "*", "", memberOf(group)])),
  };
}

/** The id of a group in such a file; 0 when there is none. */
export function groupId(group: string, name: string): number {
  const found = records(group).find(([candidate]) => candidate === name);
  return Number(found?.[2] ?? 0);
}

function isSystem([name, , id]: readonly string[]): boolean {
  if (name === SANDBOX_USER.name) return false;
  return Number(id) < FIRST_PERSON || Number(id) === NOBODY;
}

function records(text: string): string[][] {
  return text
    .split("\n")
    .filter((line) => line.includes(":"))
    .map((line) => line.split(":"));
}

function lines(rows: readonly (readonly string[])[]): string {
  return rows.map((row) => `${row.join(":")}\n`).join("");
}
