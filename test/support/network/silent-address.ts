/** An address of this machine at which connections are neither taken nor refused. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir, readlink } from "node:fs/promises";

/** Connections that wait are as many as the kernel keeps, so it answers no further one. */
const PROGRAM = `
import socket, sys
taken = socket.socket()
taken.bind((sys.argv[1], 0))
taken.listen(0)
waiting = []
for _ in range(8):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(taken.getsockname())
    waiting.append(one)
print(taken.getsockname()[1], flush=True)
sys.stdin.read()
`;

export interface SilentAddress extends AsyncDisposable {
  readonly port: number;
}

export async function openSilentAddress(host: string): Promise<SilentAddress> {
  const child = spawn("python3", ["-c", PROGRAM, host], { stdio: ["pipe", "pipe", "inherit"] });
  const [line]: Buffer[] = await once(child.stdout, "data");
  return {
    port: Number(line?.toString()),
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.stdin.end();
      await ended;
    },
  };
}

/** How many sockets of this process lead to a port of another one, connected or not. */
export async function countSocketsTo(port: number): Promise<number> {
  const wanted = port.toString(16).toUpperCase().padStart(4, "0");
  const lines = (await readFile("/proc/self/net/tcp", "utf8")).split("\n").slice(1);
  const inodes = new Set(
    lines
      .map((line) => line.trim().split(/ +/))
      .filter(([, , remote]) => remote?.endsWith(`:${wanted}`))
      .map((fields) => `socket:[${fields[9]}]`),
  );
  const names = await readdir("/proc/self/fd");
  const links = await Promise.all(
    names.map(async (name) => readlink(`/proc/self/fd/${name}`).catch(() => "")),
  );
  return links.filter((link) => inodes.has(link)).length;
}
