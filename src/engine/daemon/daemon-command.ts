/** The commands that start the daemon: as the first process of a container, of a Pod, of a kernel. */

import { join } from "node:path";
import { daemonWords } from "./compile-cache.ts";

/** Where the folder is seen inside a container. */
export const DAEMON_DIRECTORY = "/run/sandbox-mcp";

/** Where the daemon listens inside, should it inherit no socket: no service has these ports. */
export const INSIDE_PORTS = { public: 3, control: 4 } as const;
/** In the environment of PID 1 alone. */
export const SECRET_VARIABLE = "DAEMON_SECRET";
const SECRET_FILE = "/run/sandbox-mcp.secret";
/** The word before the name of that file in the daemon's command, which reads the file. */
const SECRET_WORD = "secret";
/** All but KILL, CHLD, CONT and STOP, and two that the C library keeps for itself. */
const EVERY_SIGNAL = Array.from({ length: 64 }, (_, index) => index + 1)
  .filter((number) => ![9, 17, 18, 19, 32, 33].includes(number))
  .join(" ");

/** A daemon that cannot start must not be restarted for ever. */
const MAX_RESTARTS = 1_000;
export const OPENSSL_CONFIG = "openssl.cnf";

/**
 * Small heaps: the daemon streams, it keeps nothing large. It collects garbage when it rests, so the
 * engine's own look for some, seconds later, finds nothing and costs as much again. SIGUSR1 starts no
 * inspector, and OpenSSL reads an empty configuration: that of a sandbox could name libraries to load.
 */
export const nodeFlags = (directory: string): string[] => [
  "--v8-pool-size=0",
  "--max-semi-space-size=1",
  "--max-old-space-size=128",
  "--no-memory-reducer",
  "--disable-sigusr1",
  `--openssl-config=${join(directory, OPENSSL_CONFIG)}`,
];

/**
 * The command of PID 1: a shell that starts the daemon again when it ends, and that reaps what
 * sandboxed programs leave behind. Its own output goes to the container's /dev/null. SIGINT is the one
 * signal that a shell with `-c` catches: without the trap it would end at the daemon's next end. The
 * id of the container stands last, as in the command of the runtime that starts it: where there are
 * no cgroups, the first process of a broken start is found by it.
 */
export function initCommand(id: string): string[] {
  return loopCommand({ id, daemon: daemonCommand(DAEMON_DIRECTORY), trapped: "INT" });
}

/**
 * The same in a Pod, where the daemon has one listener for both: it is told the name of its Pod
 * and the public key of those who may enter, both without characters that a shell reads.
 */
export function podInitCommand(options: {
  readonly podName: string;
  readonly passPublicKey: string;
  /** Further words, without characters that a shell reads. */
  readonly words?: readonly string[];
}): string[] {
  const { podName, passPublicKey, words = [] } = options;
  const daemon = [...daemonCommand(DAEMON_DIRECTORY), "pod", podName, passPublicKey, ...words];
  return loopCommand({ id: podName, daemon, trapped: "INT" });
}

interface LoopOptions {
  readonly id: string;
  readonly daemon: readonly string[];
  /** Signals that do not end the shell. */
  readonly trapped: string;
}

function loopCommand({ id, daemon, trapped }: LoopOptions): string[] {
  const loop = `exec </dev/null >/dev/null 2>&1
trap : ${trapped}
n=0
while [ "$n" -lt ${MAX_RESTARTS} ]; do ${daemon.join(" ")}; n=$((n+1)); done`;
  return [...commandIn(DAEMON_DIRECTORY, "sh"), "-c", loop, id];
}

/** The command of the daemon in its folder; `flags` are further flags of node. */
export function daemonCommand(
  directory: string,
  flags: readonly string[] = [],
): [string, ...string[]] {
  const node = commandIn(directory, "node");
  return [...node, ...nodeFlags(directory), ...flags, ...daemonWords(directory)];
}

/**
 * The command of PID 1 where it inherits no listening socket: it makes them on loopback, where other
 * programs can connect too. What does not begin with the secret of its environment is refused. `before` is a
 * program that runs first, which becomes the command that it is given.
 */
export function listeningInitCommand(id: string, before: readonly string[] = []): string[] {
  const { public: clients, control } = INSIDE_PORTS;
  const words = [process.arch, String(clients), String(control), SECRET_FILE];
  const listener = join(DAEMON_DIRECTORY, "listen-inside.pl");
  const init = loopCommand({
    id,
    daemon: [...daemonCommand(DAEMON_DIRECTORY), SECRET_WORD, SECRET_FILE],
    trapped: EVERY_SIGNAL,
  });
  return [...commandIn(DAEMON_DIRECTORY, "perl"), listener, ...words, ...before, ...init];
}

/** A program of the daemon's folder, run by the loader and with the libraries that lie there. */
export function commandIn(directory: string, program: string): [string, ...string[]] {
  const [loader, libraries] = [join(directory, "loader"), join(directory, "lib")];
  return [loader, "--library-path", libraries, join(directory, program)];
}
