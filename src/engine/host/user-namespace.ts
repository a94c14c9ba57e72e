/**
 * An ordinary user's way to containers: the program replaces itself by the same program in a user
 * namespace of its own, in which it is root, with the ids that `/etc/subuid` and `/etc/subgid` give
 * to its user. Process number, standard streams and environment stay what they are,
 * but for a HOME that is missing or relative.
 */

import { userInfo } from "node:os";
import { readIfThere } from "../../common/files.ts";
import { ID_RANGE, NAMESPACE_FAULT, NAMESPACE_ID_BASE } from "../../common/privilege.ts";
import { findProgram } from "./find-program.ts";
import { installCommand } from "./install-command.ts";
import { perlCommand } from "./perl-program.ts";

const PROGRAMS = ["perl", "newuidmap", "newgidmap"] as const;

/**
 * Replaces this process. Returns where there is nothing to gain, or with what is missing; the new
 * one is told in the environment what failed.
 */
export async function enterOwnNamespace(
  home: string,
  perlDirectory: string,
): Promise<string | undefined> {
  const isOrdinary = process.platform === "linux" && process.getuid?.() !== 0;
  if (!isOrdinary) return undefined;
  const plan = await planNamespace(home);
  if (typeof plan === "string") return plan;
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const command = perlCommand(perlDirectory, "user-namespace", [...plan.words, ...again]);
  return process.execve?.(plan.perl, command);
}

interface Plan {
  readonly perl: string;
  readonly words: readonly string[];
}

/** What `user-namespace.pl` is given, or what is missing. */
async function planNamespace(home: string): Promise<Plan | string> {
  const [perl, newuidmap, newgidmap] = PROGRAMS.map((name) => findProgram(name));
  if (perl === undefined) return `no perl: ${installCommand()}`;
  if (newuidmap === undefined || newgidmap === undefined) {
    return `no newuidmap and newgidmap: ${installCommand()}`;
  }
  const account = ownAccount();
  if (account === undefined) {
    const uid = process.getuid?.();
    return `no account of user id ${uid}, for which newuidmap asks: sudo useradd --uid ${uid} user${uid}`;
  }
  const { uid, gid, username } = account;
  const texts = [await readText("/etc/subuid"), await readText("/etc/subgid")] as const;
  const [users, groups] = texts.map((text) => findRange(text, [username, String(uid)]));
  if (users === undefined || groups === undefined) {
    const first = findFree(texts.join("\n"));
    const range = `${first}-${first + ID_RANGE - 1}`;
    return (
      `no range of ${ID_RANGE} ids for this user in /etc/subuid and /etc/subgid: ` +
      `sudo usermod --add-subuids ${range} --add-subgids ${range} ${username}`
    );
  }
  return {
    perl,
    words: [NAMESPACE_FAULT, process.arch, home].concat(
      mapCommand(newuidmap, uid, users),
      mapCommand(newgidmap, gid, groups),
    ),
  };
}

/** An id may have no account, as in a container. */
function ownAccount() {
  try {
    return userInfo();
  } catch {
    return undefined;
  }
}

/** As useradd of most distributions begins. */
const FIRST_SUBORDINATE_ID = 100_000;

/** The first id of a range that overlaps none: who shares one with another user may enter the other's sandboxes. */
export function findFree(text: string): number {
  const lines = text.split("\n").map((line) => line.split(":").slice(1).map(Number));
  const taken = lines.filter((numbers) => numbers.every((number) => Number.isInteger(number)));
  let first = FIRST_SUBORDINATE_ID;
  for (const [start = 0, count = 0] of taken.toSorted(([a = 0], [b = 0]) => a - b)) {
    if (first + ID_RANGE <= start) break;
    first = Math.max(first, start + count);
  }
  return first;
}

/** The words after the number of the process. */
function mapCommand(tool: string, own: number, first: number): string {
  return [tool, "0", own, "1", NAMESPACE_ID_BASE, first, ID_RANGE].join(" ");
}

/** The first id of a range that is large enough; @see subuid(5). */
export function findRange(text: string, names: readonly string[]): number | undefined {
  for (const line of text.split("\n")) {
    const [name = "", first, count] = line.split(":");
    if (names.includes(name) && Number(count) >= ID_RANGE) return Number(first);
  }
  return undefined;
}

async function readText(path: string): Promise<string> {
  return (await readIfThere(path)) ?? "";
}
