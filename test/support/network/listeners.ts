/** Where programs listen, as the kernel shows it. */

import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";

/** Local addresses of the TCP sockets on which a process itself listens. */
export async function listenersOf(pid: number): Promise<string[]> {
  const links = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const open = await Promise.all(
    links.map(async (name) => readlink(join(`/proc/${pid}/fd`, name)).catch(() => "")),
  );
  const rows = await listeningRows(pid);
  return rows
    .filter(({ inode }) => open.includes(`socket:[${inode}]`))
    .map(({ address }) => address);
}

/** Those of everybody in the network namespace of a process, sorted. */
export async function listenersAround(pid: number): Promise<string[]> {
  return (await listeningRows(pid)).map(({ address }) => address).toSorted();
}

async function listeningRows(pid: number): Promise<{ address: string; inode: string }[]> {
  const tables = await Promise.all(
    ["tcp", "tcp6"].map(async (name) =>
      readFile(`/proc/${pid}/net/${name}`, "utf8").catch(() => ""),
    ),
  );
  const rows = tables.flatMap((table) => table.split("\n")).map((row) => row.trim().split(/\s+/));
  return rows
    .filter((row) => row[3] === "0A")
    .map((row) => ({ address: row[1] ?? "", inode: row[9] ?? "" }));
}
