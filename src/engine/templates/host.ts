/**
 * The `host` template: this machine's `/usr` read-only below a fresh root. The rest of the root is
 * an allow-list copy of what programs need, of files that are readable by all. People's accounts,
 * keys, passwords and `/usr/local`, where administrators keep private things, are not in it.
 */

import { chmod, readdir, readlink, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { causeCode, SandboxError } from "../../common/errors.ts";
import { hasParts, readIfThere } from "../../common/files.ts";
import { sha256Hex } from "../../common/hash.ts";
import { isOpenTree } from "../../common/tree-modes.ts";
import type { Layer } from "../engine.ts";
import { findProgram } from "../host/find-program.ts";
import { launcherCommand } from "../host/launcher.ts";
import { runProgram } from "../host/run-program.ts";
import { makeLayer, TREES } from "../storage/layers.ts";
import type { BuildOptions } from "./base.ts";
import { copyReadable } from "./copy-readable.ts";
import { LOCAL_MODE, makeFolder, readAccounts, redactSources, writeSettings } from "./settings.ts";

/** Entries of /etc that programs read, and that hold nothing of this machine's owner. */
const SETTINGS: ReadonlySet<string> = new Set(
  `adduser.conf alternatives bash.bashrc bindresvport.blacklist ca-certificates
  ca-certificates.conf crypto-policies debconf.conf debian_version deluser.conf dpkg ethertypes
  fonts gai.conf groff host.conf inputrc issue ld.so.cache ld.so.conf ld.so.conf.d libaudit.conf
  locale.alias locale.gen localtime login.defs lsb-release magic magic.mime manpath.config
  mime.types netconfig networks nsswitch.conf os-release pam.conf pam.d perl pki profile
  protocols python3 rmt rpc security services shells skel terminfo timezone ucf.conf vim
  xattr.conf`.split(/\s+/),
);

/** Versioned names, as `java-17-openjdk` and `python3.11`. */
const VERSIONED_SETTINGS = /^(java-\d+-openjdk|python3\.\d+)$/;

/** Deeper entries, of folders that hold private ones too. */
const NESTED = [
  "etc/apt/sources.list",
  "etc/apt/sources.list.d",
  "etc/apt/trusted.gpg",
  "etc/apt/trusted.gpg.d",
  "etc/apt/keyrings",
  "etc/apt/preferences.d",
  "etc/default/locale",
  "etc/default/useradd",
  "etc/ssl/certs",
  "etc/ssl/openssl.cnf",
  // The package database, without which the package manager would install everything again.
  "var/lib/dpkg",
  "var/lib/pam",
  "var/lib/ucf",
] as const;

/** Links of a merged /usr; a machine without them is not supported. */
const LINKS = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] as const;

const FOLDERS = {
  boot: 0o755,
  dev: 0o755,
  media: 0o755,
  mnt: 0o755,
  opt: 0o755,
  proc: 0o555,
  root: 0o700,
  run: 0o755,
  srv: 0o755,
  sys: 0o555,
  tmp: 0o1777,
  usr: 0o755,
  "etc/profile.d": 0o755,
  var: 0o755,
  "var/cache": 0o755,
  "var/cache/apt/archives/partial": 0o700,
  "var/lib": 0o755,
  "var/lib/apt/lists/partial": 0o700,
  "var/local": 0o755,
  "var/log": 0o755,
  "var/log/apt": 0o755,
  "var/mail": 0o755,
  "var/opt": 0o755,
  "var/spool": 0o755,
  "var/tmp": 0o1777,
} as const;

const LOCAL_FOLDERS = ["bin", "etc", "games", "include", "lib", "sbin", "share", "src"] as const;

/** sudo for machines that have none: `su`, which trusts the members of the group sudo. */
const SUDO_SHIM = `#!/bin/sh
user=root alone=/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    -u) user=$2; shift 2 ;;
    -k|-v) alone=true; shift ;;
    -n|-E|-H|-S|-i|-s) shift ;;
    --) shift; break ;;
    -*) echo "sudo: option $1 is not known here" >&2; exit 1 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || set -- "$alone"
exec su -m -s /bin/sh "$user" -c 'exec env "$@"' -- sudo "$@"
`;

const TRUST_SUDO_GROUP = "auth sufficient pam_wheel.so trust group=sudo\n";

/** A change of what is made, or of where it is put, makes a new skeleton. */
const LAYOUT = 4;

/** Names all of the above: a skeleton that was made by another list is not used. */
export const HOST_RECIPE: string = sha256Hex(
  JSON.stringify([LAYOUT, [...SETTINGS], NESTED, LINKS, FOLDERS, LOCAL_FOLDERS, SUDO_SHIM]),
).slice(0, 8);

/** The second layer: nothing for `/`, an empty `local` for `/usr`. */
const OVER = "over";

/** The last thing that each step writes, and the trees that are mounted. */
const PARTS = ["root/usr", "root/etc/passwd", `${OVER}/root`, `${OVER}/usr/local/src`] as const;

/**
 * Makes the skeleton. The layers use this machine's `/usr` as it is.
 * @throws SandboxError unavailable on a machine without a merged /usr, already_exists, canceled
 */
export async function buildHost(
  options: Pick<BuildOptions, "directory"> &
    Partial<Pick<BuildOptions, "signal">> & {
      /** Where the perl programs lie. */
      readonly perlDirectory: string;
    },
): Promise<readonly Layer[]> {
  const hasSudo = findProgram("/usr/bin/sudo") !== undefined;
  const fill = async (draft: string) => {
    await makeRoot(join(draft, TREES.root), hasSudo);
    await makeOverlay(join(draft, OVER), { hasSudo, perlDirectory: options.perlDirectory });
  };
  await makeLayer(options.directory, fill, options.signal);
  return hostLayers(options.directory);
}

/** The layers of the skeleton in this folder; undefined where there is none, or not all of it. */
export async function findHost(directory: string): Promise<readonly Layer[] | undefined> {
  const isWhole =
    (await hasParts(directory, PARTS)) && (await isOpenTree(join(directory, TREES.root)));
  return isWhole ? hostLayers(directory) : undefined;
}

function hostLayers(directory: string): readonly Layer[] {
  const over = join(directory, OVER);
  return [
    { root: join(directory, TREES.root), usr: "/usr" },
    { root: join(over, TREES.root), usr: join(over, TREES.usr) },
  ];
}

async function makeRoot(root: string, hasSudo: boolean): Promise<void> {
  await makeFolder(root, 0o755);
  for (const [name, mode] of Object.entries(FOLDERS)) await makeFolder(join(root, name), mode);
  for (const name of LINKS) await copyLink(name, root);
  await symlink("/proc/mounts", join(root, "etc/mtab"));
  await symlink("/run", join(root, "var/run"));
  await symlink("/run/lock", join(root, "var/lock"));
  for (const name of await readdir("/etc")) {
    if (SETTINGS.has(name) || VERSIONED_SETTINGS.test(name))
      await copyReadable(`etc/${name}`, root);
  }
  for (const path of NESTED) await copyReadable(path, root);
  await redactSources(root);
  await writeSettings(root, await readAccounts("/"));
  if (!hasSudo) await trustSudoGroup(root);
}

async function copyLink(name: string, root: string): Promise<void> {
  let target: string;
  try {
    target = await readlink(`/${name}`);
  } catch (error) {
    const code = causeCode(error);
    if (code === "ENOENT") return;
    if (code !== "EINVAL") throw error;
    throw new SandboxError("unavailable", `/${name} is not a link into /usr`, {
      hint: "use the template `base`",
    });
  }
  await symlink(target, join(root, name));
}

async function trustSudoGroup(root: string): Promise<void> {
  const path = join(root, "etc/pam.d/su");
  const text = await readIfThere(path);
  if (text !== undefined) await writeFile(path, TRUST_SUDO_GROUP + text);
}

async function makeOverlay(
  over: string,
  { hasSudo, perlDirectory }: { readonly hasSudo: boolean; readonly perlDirectory: string },
): Promise<void> {
  await makeFolder(over, 0o755);
  await makeFolder(join(over, TREES.root), 0o755);
  const local = join(over, TREES.usr, "local");
  await makeFolder(join(over, TREES.usr), 0o755);
  await makeFolder(local, LOCAL_MODE);
  for (const name of LOCAL_FOLDERS) await makeFolder(join(local, name), LOCAL_MODE);
  await runProgram(
    launcherCommand(perlDirectory, [
      ["opaque", local],
      ["exec", "true"],
    ]),
  );
  if (hasSudo) return;
  await writeFile(join(local, "bin/sudo"), SUDO_SHIM);
  await chmod(join(local, "bin/sudo"), 0o755);
}
