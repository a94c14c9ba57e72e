/**
 * The relay of a sandbox with a kernel of its own, between clients of the test and a daemon of the
 * test: what joins both in place of that kernel is `fake-sentry.py`.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import { readKernelFile } from "../../../src/common/files.ts";
import { listenOnLoopback } from "../loopback.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import { makeTempFolder } from "../temp-folder.ts";

const SENTRY = resolve(import.meta.dirname, "fake-sentry.py");
const SECRET = "f00d".repeat(12);
const ID = "relayed";

export interface RelayWorld extends AsyncDisposable {
  /** A connection of a client; the daemon gets it at its port for clients. */
  dial(): Promise<Socket>;
  /** Sends one order and returns the answer. */
  order(word: string): Promise<string>;
  /** The calls of the kernel so far, without those for connections. */
  orders(): readonly string[];
  /** The kernel hands no connection over any more, or does again. */
  refuse(isRefusing: boolean): Promise<void>;
  /** The kernel answers no pause until it is released. */
  holdPauses(isHolding: boolean): Promise<void>;
  /** Gives one order and goes before its answer. */
  orderAndGo(word: string, moment: () => Promise<void>): Promise<void>;
  /** Signals the relay. */
  signal(name: NodeJS.Signals): void;
  /** Ends what stands for the kernel; resolves when it is gone. */
  endKernel(): Promise<void>;
  isRelayRunning(): boolean;
  /** What the relay wrote to files and emptied or removed before it was on the disk. */
  takenBackBytes(): number;
  /** Kills the relay and starts another one. */
  replaceRelay(): Promise<void>;
}

/**
 * Starts a relay whose daemon is `onConnection` at its port for clients, and answers the relay once
 * what `isServing` returns has resolved.
 */
export async function startRelayWorld(
  onConnection: (raw: Socket) => void,
  perlDirectory = PERL_DIRECTORY,
  isServing: () => Promise<void> = async () => undefined,
): Promise<RelayWorld> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const sockets = new Set<Socket>();
  const publicPort = await listen(stack, sockets, onConnection);
  // The relay asks here whether the daemon serves.
  const controlPort = await listen(stack, sockets, (raw) => {
    raw.once("data", () => {
      void isServing().then(() => raw.end("HTTP/1.1 204 No Content\r\n\r\n"));
    });
  });
  const program = join(perlDirectory, "sentry-relay.pl");
  const words = [SENTRY, process.arch, ID, String(publicPort), String(controlPort), program];
  const kernel = spawn("python3", ["-B", ...words], {
    cwd: folder.path,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(kernel, "exit");
  const endKernel = async (): Promise<void> => {
    kernel.stdin.end();
    await ended;
  };
  stack.defer(endKernel);
  kernel.stdin.write(`${SECRET}\n`);
  const told: string[] = [];
  let started = Promise.withResolvers<number>();
  createInterface(kernel.stdout).on("line", (line) => {
    told.push(line);
    if (line.startsWith("relay ")) started.resolve(Number(line.slice("relay ".length)));
  });
  const awaitRelay = async (): Promise<number> =>
    Promise.race([
      started.promise,
      ended.then(() => Promise.reject(new Error("the relay did not start"))),
    ]);
  let relay = await awaitRelay();
  stack.defer(async () => expect.poll(() => isRunning(relay)).toBe(false));
  stack.defer(endKernel);
  const dialAt = async (name: string): Promise<Socket> => {
    const socket = connect(join(folder.path, name));
    sockets.add(socket);
    socket.on("error", () => undefined);
    await once(socket, "connect");
    return socket;
  };
  const mark = async (name: string, isSet: boolean): Promise<void> => {
    const path = join(folder.path, name);
    await (isSet ? writeFile(path, "") : rm(path));
  };
  const owned = stack.move();
  return {
    dial: async () => dialAt("public"),
    async order(word) {
      const socket = await dialAt("orders");
      socket.write(`${word}\n`);
      let answer = "";
      socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
      await once(socket, "close");
      return answer;
    },
    orders: () => told.filter((word) => word === "Pause" || word === "Resume"),
    refuse: async (isRefusing) => mark("refused", isRefusing),
    holdPauses: async (isHolding) => mark("held", isHolding),
    async orderAndGo(word, moment) {
      const socket = await dialAt("orders");
      socket.write(`${word}\n`);
      await moment();
      const closed = once(socket, "close");
      socket.destroy();
      await closed;
    },
    signal: (name) => process.kill(relay, name),
    endKernel,
    isRelayRunning: () => isRunning(relay),
    takenBackBytes: () => {
      const text = readKernelFile(`/proc/${relay}/io`) ?? "";
      return Number(/^cancelled_write_bytes: (\d+)$/m.exec(text)?.[1]);
    },
    async replaceRelay() {
      process.kill(relay, "SIGKILL");
      await expect.poll(() => isRunning(relay)).toBe(false);
      started = Promise.withResolvers();
      kernel.stdin.write("again\n");
      relay = await awaitRelay();
    },
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}

async function listen(
  stack: AsyncDisposableStack,
  sockets: Set<Socket>,
  onConnection: (raw: Socket) => void,
): Promise<number> {
  const server: Server = createServer((raw) => {
    sockets.add(raw);
    raw.on("error", () => undefined);
    onConnection(raw);
  });
  const port = await listenOnLoopback(server);
  stack.defer(async () => {
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  return port;
}

/** One that ended may not have been waited for yet. */
function isRunning(pid: number): boolean {
  const stat = readKernelFile(`/proc/${pid}/stat`);
  return stat !== undefined && !/\) Z /.test(stat);
}
