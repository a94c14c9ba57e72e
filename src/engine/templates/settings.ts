/** What every template of ours has in `/etc` and `/home`, whatever its programs come from. */

import { chmod, chown, cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { causeCode } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";
import { createAccounts, groupId, SANDBOX_USER } from "./accounts.ts";

/** No network and no name service yet: a server that is not there is refused at once. */
const RESOLVER = "nameserver 127.0.0.1\n";

const HOSTS = `127.0.0.1 localhost
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
  await write(etc("passwd"), accounts.passwd);
  await write(etc("group"), accounts.group);
  const shadowId = groupId(accounts.group, SHADOW_GROUP);
  for (const name of ["shadow", "gshadow"] as const) {
    await write(etc(name), accounts[name], 0o640);
    await chown(etc(name), 0, shadowId);
  }
  await write(etc("hostname"), "sandbox\n");
  await write(etc("hosts"), HOSTS);
  await write(etc("resolv.conf"), RESOLVER);
  // Empty: whoever starts first in a sandbox makes one, and no two sandboxes share it.
  await write(etc("machine-id"), "");
  await write(etc("sudoers"), SUDOERS, 0o440);
  await makeFolder(etc("sudoers.d"), 0o750);
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

/** Takes passwords out of the addresses of package servers. */
export async function redactSources(root: string): Promise<void> {
  const folder = join(root, "etc/apt/sources.list.d");
  const names = (await readIfFolder(folder)).map((name) => join(folder, name));
  for (const path of [join(root, "etc/apt/sources.list"), ...names]) {
    const text = await readIfThere(path);
    if (text !== undefined) await writeFile(path, text.replaceAll(/:\/\/[^/\s@]*@/g, "://"));
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
    if (causeCode(error) === "ENOENT") return [];
    throw error;
  }
}

async function write(path: string, text: string, mode = 0o644): Promise<void> {
  // What is there may be a link, such as the resolver's file of a desktop system.
  await rm(path, { force: true });
  await writeFile(path, text);
  await chmod(path, mode);
}
