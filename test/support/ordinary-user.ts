/** An account of this machine without any rights, with a copy of the built program in its home. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmod,
  chown,
  cp,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { causeCode } from "../../src/common/errors.ts";
import { findRange } from "../../src/engine/host/user-namespace.ts";
import { shiftIds } from "../../src/engine/templates/base.ts";
import { baseLayers } from "./base-layer.ts";
import { findShared } from "./engine/shared-daemon.ts";
import { DEEP_FOLDER } from "./home.ts";
import { PROGRAM } from "./program.ts";

const run = promisify(execFile);

export interface OrdinaryUser extends AsyncDisposable {
  readonly name: string;
  /** Its home directory. */
  readonly home: string;
  /** Home of the product for this user, with the base template in it. */
  readonly data: string;
  /** The command that is `sandbox-mcp` for this user. */
  readonly program: readonly [string, ...string[]];
  readonly uid: number;
  /** First of its subordinate ids; undefined when it has none. */
  readonly idBase: number | undefined;
  /** Processes that have its id or a subordinate one. */
  processes(): Promise<string[]>;
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
  readonly idBase: number;
}

/** Makes the account; only root may. Without `ids` it is one that containers cannot have. */
export async function openOrdinaryUser(options: { readonly ids: boolean }): Promise<OrdinaryUser> {
  const name = `smcp${randomBytes(4).toString("hex")}`;
  const home = await mkdtemp(join(tmpdir(), "smcp-u-"));
  // Taken out of the files afterwards, they could take what another run adds meanwhile with them.
  const noIds = ["-K", "SUB_UID_COUNT=0", "-K", "SUB_GID_COUNT=0"];
  const flags = ["--home-dir", home, "--no-create-home", "--shell", "/bin/sh"];
  await run("useradd", [...(options.ids ? [] : noIds), ...flags, name]);
  const uid = Number((await run("id", ["-u", name])).stdout);
  const gid = Number((await run("id", ["-g", name])).stdout);
  const idBase = await rangeOf(name);
  await cp(dirname(PROGRAM), join(home, "dist"), { recursive: true });
  await giveNode(join(home, "node"));
  const data = join(home, DEEP_FOLDER);
  await mkdir(join(data, "layers"), { recursive: true });
  await chown(home, uid, gid);
  await run("chown", ["-R", `${uid}:${gid}`, join(home, ".local")]);
  await chmod(home, 0o700);
  if (idBase !== undefined) await giveBase(join(data, "layers"), { uid, gid, idBase });
  const identity = ["--reuid", name, "--regid", name, "--clear-groups"];
  return {
    name,
    home,
    data,
    uid,
    idBase,
    // A careful person's umask must not shut a sandbox out of its own files.
    program: [
      "setpriv",
      ...identity,
      "sh",
      "-c",
      'umask 077; exec "$@"',
      "sh",
      join(home, "node"),
      join(home, "dist", "main.js"),
    ],
    processes: async () => processesOf(uid, idBase),
    async [Symbol.asyncDispose]() {
      await run("userdel", [name]);
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** The base template as this user would have built it; accounts of a run with the same ids share one. */
async function giveBase(layers: string, owner: Owner): Promise<void> {
  const [layer] = await baseLayers();
  const source = dirname(layer?.root ?? "");
  const shared = await findShared();
  if (shared === undefined) return copyBase(source, join(layers, basename(source)), owner);
  const copy = join(shared, `base-of-${owner.uid}-${owner.idBase}`);
  if ((await stat(copy).catch(() => undefined)) === undefined) {
    const draft = `${copy}.part`;
    await copyBase(source, draft, owner);
    await rename(draft, copy);
  }
  await symlink(copy, join(layers, basename(source)));
}

async function copyBase(source: string, target: string, owner: Owner): Promise<void> {
  await run("cp", ["-a", source, target]);
  await chown(target, owner.uid, owner.gid);
  await shiftIds(join(target, "root"), owner.idBase);
}

/** The program itself where the home is on its disk; its path alone tells them apart. */
async function giveNode(path: string): Promise<void> {
  try {
    await link(process.execPath, path);
  } catch (error) {
    if (causeCode(error) !== "EXDEV") throw error;
    await cp(process.execPath, path);
  }
}

const RANGE = 65_536;

/** First of the subordinate ids of an account. */
export async function rangeOf(name: string): Promise<number | undefined> {
  return findRange(await readFile("/etc/subuid", "utf8"), [name]);
}

/** Processes with the id or a subordinate one, each as its number and its command. */
export async function processesOf(uid: number, idBase = -RANGE): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
    const owner = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1] ?? -1);
    if (owner !== uid && (owner < idBase || owner >= idBase + RANGE)) continue;
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command !== "") found.push(`${pid} ${command.replaceAll("\0", " ").trim()}`);
  }
  return found;
}
