/** The accounts of an image, with `root` and `user` among them; the others stay as they are. */

import { isUtf8 } from "node:buffer";
import { posix } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { rowsOf, shadowRow, toText, type Row } from "../engine/templates/settings.ts";
import type { TreeWriter } from "./tree-writer.ts";
import { MAX_PATH_BYTES } from "./tree.ts";

const FIRST_ID = 1000;
const LAST_ID = 60_000;
const SUDO_GROUP = "sudo";
const SUDO_ID = 27;
const USER = "user";
const SHELL = "/bin/bash";
/** A name of an account that a shell and the daemon take. */
const NAME_PATTERN = /^[a-z_][a-z0-9_.-]{0,31}\$?$/i;

/** What a new home gets of the image: one file may have any number of names. */
const MAX_SKEL_FILES = 1_000;
const MAX_SKEL_BYTES = 16 * 1024 * 1024;
/** Of 20,000 accounts: a file of them is taken apart in one turn of the event loop. */
const MAX_FIELDS = 140_000;
/** Less than is read of a file: with the rows that are added it is read again. */
const MAX_BYTES = 1_000_000;

/**
 * Adds what is missing; returns the name of the account that the image's configuration means.
 * A sandbox's user is a member of the group sudo, which needs no password.
 */
export async function addUser(files: TreeWriter, configured: string): Promise<string | undefined> {
  const users = await readRows(files, "/etc/passwd");
  const groups = await readRows(files, "/etc/group");
  if (find(users, "root") === undefined) {
    users.unshift(["root", "x", "0", "0", "root", "/root", "/bin/sh"]);
  }
  if (find(groups, "root") === undefined) groups.unshift(["root", "x", "0", ""]);
  const named = configured.split(":", 1)[0] ?? "";
  const own = users.find(([name, , id]) => name === named || id === named);
  if (find(users, USER) === undefined) {
    const id = freeId(users, groups);
    users.push([USER, "x", id, id, "", `/home/${USER}`, SHELL]);
    if (find(groups, USER) === undefined) groups.push([USER, "x", id, ""]);
  }
  const sudo = find(groups, SUDO_GROUP);
  if (sudo === undefined) groups.push([SUDO_GROUP, "x", freeSystemId(groups), USER]);
  else groups.splice(groups.indexOf(sudo), 1, withMember(sudo));
  await files.write("/etc/passwd", toText(users));
  await files.write("/etc/group", toText(groups));
  await addPasswords(files, users);
  const account = own !== undefined && NAME_PATTERN.test(own[0] ?? "") ? own : undefined;
  for (const row of [find(users, USER), account]) await makeHome(files, row ?? []);
  return account?.[0];
}

/** The home of an account in Unicode, or `/` where that can be no directory. */
export async function findHome(files: TreeWriter, name: string): Promise<string> {
  const home = find(rowsOf((await files.read("/etc/passwd")) ?? ""), name)?.[5] ?? "";
  const bytes = Buffer.from(home, "latin1");
  const isUsable = home.startsWith("/") && files.isSeenDirectory(home) && isUtf8(bytes);
  return isUsable ? bytes.toString("utf8") : "/";
}

/** The id of the group that may use sudo. */
export async function findSudoGroup(files: TreeWriter): Promise<number> {
  return Number(find(rowsOf((await files.read("/etc/group")) ?? ""), SUDO_GROUP)?.[2] ?? SUDO_ID);
}

async function readRows(files: TreeWriter, path: string): Promise<Row[]> {
  if (!files.isFile(path)) return [];
  const text = await files.read(path);
  if (text !== undefined && hasMoreFields(text)) {
    refuse(`${path} has more than ${MAX_FIELDS} fields`);
  }
  if (text === undefined || text.length > MAX_BYTES) {
    refuse(`${path} has more than ${MAX_BYTES} bytes`);
  }
  return rowsOf(text);
}

function hasMoreFields(text: string): boolean {
  let fields = 0;
  for (let at = 0; at < text.length && fields <= MAX_FIELDS; at += 1) {
    const character = text[at];
    if (character === ":" || character === "\n") fields += 1;
  }
  return fields > MAX_FIELDS;
}

function find(rows: readonly Row[], name: string): Row | undefined {
  return rows.find(([candidate]) => candidate === name);
}

function freeId(users: readonly Row[], groups: readonly Row[]): string {
  const taken = new Set([...users, ...groups].map(([, , id]) => id));
  for (let id = FIRST_ID; id < LAST_ID; id += 1) if (!taken.has(String(id))) return String(id);
  return String(LAST_ID);
}

function freeSystemId(groups: readonly Row[]): string {
  const taken = new Set(groups.map(([, , id]) => id));
  for (let id = SUDO_ID; id < FIRST_ID; id += 1) if (!taken.has(String(id))) return String(id);
  return String(SUDO_ID);
}

function withMember([name = "", password = "x", id = "", members = ""]: Row): Row {
  const list = members.split(",").filter((member) => member !== "");
  return [name, password, id, [...new Set([...list, USER])].join(",")];
}

async function addPasswords(files: TreeWriter, users: readonly Row[]): Promise<void> {
  const facts = files.facts("/etc/shadow");
  if (facts === undefined) return;
  const rows = await readRows(files, "/etc/shadow");
  // Both files may have a row for every few of their bytes.
  const known = new Set(rows.map(([name]) => name));
  const missing = users.filter(([name]) => !known.has(name));
  const added = missing.map(([name = ""]) => shadowRow(name));
  const { mode, uid, gid } = facts;
  await files.write("/etc/shadow", toText([...rows, ...added]), { mode, uid, gid });
}

async function makeHome(files: TreeWriter, [, , id, group, , home = ""]: Row): Promise<void> {
  const owner = { uid: Number(id), gid: Number(group) };
  if (!home.startsWith("/") || !Number.isInteger(owner.uid) || !Number.isInteger(owner.gid)) return;
  if (files.facts(home) !== undefined || !canBeMade(files, home)) return;
  files.makeDirectory(home, 0o755, owner);
  const names = files.list("/etc/skel");
  if (names.length > MAX_SKEL_FILES) refuseSkel();
  let bytes = 0;
  for (const name of names) {
    const text = await files.read(`/etc/skel/${name}`);
    bytes += text?.length ?? 0;
    if (bytes > MAX_SKEL_BYTES) refuseSkel();
    if (text !== undefined) await files.write(`${home}/${name}`, text, owner);
  }
}

function refuseSkel(): never {
  refuse(`/etc/skel has more than ${MAX_SKEL_FILES} files or ${MAX_SKEL_BYTES} bytes`);
}

function refuse(fault: string): never {
  const message = `the image cannot be a sandbox: its ${fault}`;
  throw new SandboxError("failed_precondition", message);
}

/** Whether what is there of the way to a path is a directory, in which a sandbox sees what is made. */
function canBeMade(files: TreeWriter, path: string): boolean {
  // An account may name a megabyte, of which each directory would be looked for.
  if (path.length > MAX_PATH_BYTES || path.split("/").includes("..")) return false;
  let parent = posix.dirname(path);
  while (files.facts(parent) === undefined) parent = posix.dirname(parent);
  return files.isSeenDirectory(parent);
}
