/**
 * What every template of ours has in `/etc` and `/home`, whatever its programs come from. Of the
 * accounts `root`, `user` and what the system's own packages need are kept; people are not.
 */

import {
  chmod,
  chown,
  cp,
  mkdir,
  opendir,
  readdir,
  readFile,
  rm,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { isCode } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";
import { LOGIN_PATH, LOGIN_PATH_FILE } from "./login-path.ts";

/** No network and no name service yet: a server that is not there is refused at once. */
export const RESOLVER = "nameserver 127.0.0.1\n";

export const HOSTS = `127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
`;

const SUDOERS = `Defaults env_reset
Defaults !fqdn
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
%sudo ALL=(ALL:ALL) NOPASSWD: ALL
@includedir /etc/sudoers.d
`;

const SHADOW_GROUP = "shadow";

/** Writes accounts, names, resolver, sudo rules and the home folder into a root tree. */
export async function writeSettings(root: string, source: AccountFiles): Promise<void> {
  const etc = (name: string) => join(root, "etc", name);
  const accounts = createAccounts(source);
  await writeSetting(etc("passwd"), accounts.passwd);
  await writeSetting(etc("group"), accounts.group);
  const shadowId = groupId(accounts.group, SHADOW_GROUP);
  for (const name of ["shadow", "gshadow"] as const) {
    await writeSetting(etc(name), accounts[name], 0o640);
    await chown(etc(name), 0, shadowId);
  }
  await writeSetting(etc("hostname"), "sandbox\n");
  await writeSetting(etc("hosts"), HOSTS);
  await writeSetting(etc("resolv.conf"), RESOLVER);
  // Empty: the first program that needs one makes it, and no two sandboxes share it.
  await writeSetting(etc("machine-id"), "");
  await writeSetting(etc("sudoers"), SUDOERS, 0o440);
  await makeFolder(etc("sudoers.d"), 0o750);
  await makeFolder(etc("profile.d"), 0o755);
  await writeSetting(join(root, LOGIN_PATH_FILE), LOGIN_PATH);
  await makeHome(root);
}

export interface AccountFiles {
  readonly passwd: string;
  readonly group: string;
}

/** The account files of a root tree. */
export async function readAccounts(root: string): Promise<AccountFiles> {
  return {
    passwd: await readFile(join(root, "etc/passwd"), "utf8"),
    group: await readFile(join(root, "etc/group"), "utf8"),
  };
}

/** A folder with exactly this mode, whatever the umask. */
export async function makeFolder(path: string, mode: number): Promise<void> {
  await mkdir(path, { recursive: true });
  await chmod(path, mode);
}

/** Programs of every account install into `/usr/local`, as in the public service. */
export const LOCAL_MODE = 0o777;

/**
 * Lets every account install into this `/usr/local` by npm and pip without sudo. The mode of files
 * stays: they are replaced, not written.
 */
export async function openLocal(local: string): Promise<void> {
  const folders = [local];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    await chmod(folder, LOCAL_MODE);
    for await (const entry of await opendir(folder)) {
      if (entry.isDirectory()) folders.push(join(folder, entry.name));
    }
  }
}

/** Takes passwords out of the addresses of package servers. */
export async function redactSources(root: string): Promise<void> {
  const folder = join(root, "etc/apt/sources.list.d");
  const names = (await readIfFolder(folder)).map((name) => join(folder, name));
  for (const path of [join(root, "etc/apt/sources.list"), ...names]) {
    const text = await readIfThere(path);
    const redacted = text?.replaceAll(/:\/\/[^/\s@]*@/g, "://");
    if (redacted !== undefined && redacted !== text) await writeFile(path, redacted);
  }
}

async function makeHome(root: string): Promise<void> {
  const home = join(root, SANDBOX_USER.home);
  await makeFolder(join(root, "home"), 0o755);
  await makeFolder(home, 0o755);
  const skeleton = join(root, "etc/skel");
  for (const name of await readIfFolder(skeleton)) {
    await cp(join(skeleton, name), join(home, name), { recursive: true, verbatimSymlinks: true });
    await chown(join(home, name), SANDBOX_USER.id, SANDBOX_USER.id);
  }
  await chown(home, SANDBOX_USER.id, SANDBOX_USER.id);
}

async function readIfFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (isCode(error, "ENOENT")) return [];
    throw error;
  }
}

/** Writes one file anew, readable by all unless another mode is given. */
export async function writeSetting(path: string, text: string, mode = 0o644): Promise<void> {
  // What is there may be a link, such as the resolver's file of a desktop system.
  await rm(path, { force: true });
  await writeFile(path, text);
  await chmod(path, mode);
}

/** The sandbox's user: id, group and home are part of what clients rely on. */
const SANDBOX_USER = {
  name: "user",
  id: 1000,
  home: "/home/user",
  shell: "/bin/bash",
} as const;

const FIRST_PERSON = 1000;
const NO_USER = 65_534;
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
  const users = rowsOf(source.passwd).filter((fields) => isSystem(fields));
  const groups = rowsOf(source.group).filter((fields) => isSystem(fields));
  const { name, id, home, shell } = SANDBOX_USER;
  users.push([name, "x", String(id), String(id), "", home, shell]);
  if (!groups.some(([group]) => group === "sudo")) groups.push(["sudo", "x", "27", ""]);
  groups.push([name, "x", String(id), ""]);
  const memberOf = (group: string | undefined) => (group === "sudo" ? name : "");
  return {
    passwd: toText(users.map(([user = "", , ...rest]) => [user, "x", ...rest])),
    group: toText(groups.map(([group = "", , gid = ""]) => [group, "x", gid, memberOf(group)])),
    shadow: toText(users.map(([user = ""]) => shadowRow(user))),
    gshadow: toText(groups.map(([group = ""]) => [group, "*", "", memberOf(group)])),
  };
}

/** The id of a group in such a file; 0 when there is none. */
export function groupId(group: string, name: string): number {
  const found = rowsOf(group).find(([candidate]) => candidate === name);
  return Number(found?.[2] ?? 0);
}

function isSystem([name, , id]: readonly string[]): boolean {
  if (name === SANDBOX_USER.name) return false;
  return Number(id) < FIRST_PERSON || Number(id) === NO_USER;
}

/** A row of a file of accounts: its fields. */
export type Row = readonly string[];

export function rowsOf(text: string): Row[] {
  return text
    .split("\n")
    .filter((line) => line.includes(":"))
    .map((line) => line.split(":"));
}

export function toText(rows: readonly Row[]): string {
  return rows.map((row) => `${row.join(":")}\n`).join("");
}

/** No password fits a star: no login by one works, and `su` from root needs none. */
export function shadowRow(user: string): Row {
  return [user, "*", String(PASSWORD_DAY), "0", "99999", "7", "", "", ""];
}
