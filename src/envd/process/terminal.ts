/** A process on a terminal of its own; a relay between the two does what Node cannot. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { getSystemErrorName } from "node:util";
import { SandboxError } from "../../common/errors.ts";
import type { ProcessConfig } from "../../gen/process/process_pb.ts";
import { DEFAULT_PATH, type Command } from "../bundled-program.ts";
import { killProcess } from "./kill.ts";
import { commandText, type Launch } from "./launch.ts";
import { encodeOrder, launchFields } from "./order.ts";
import { signalOutcome, toOutcome, type Outcome } from "./outcome.ts";
import { startFault, type ProcessStreams, type TerminalSize } from "./process-streams.ts";
import { watchSilence, type SilenceOptions } from "./silence.ts";

/** The kernel holds a size in two numbers of 16 bits. */
const MAX_SIDE = 0xffff;

export interface TerminalOptions {
  readonly config: ProcessConfig;
  readonly launch: Launch;
  readonly size: TerminalSize;
  /** The relay, `terminal.pl`. */
  readonly relay: Command;
  /** When a relay that has not started the process counts as hung, and is killed. */
  readonly silence?: SilenceOptions;
}

/**
 * Starts a process on a terminal.
 * @throws SandboxError invalid_argument, resource_exhausted, deadline_exceeded
 */
export async function startOnTerminal(options: TerminalOptions): Promise<ProcessStreams> {
  const { config, launch, size } = options;
  const command = commandText(config);
  const subject = `error starting pty with command '${command}' in dir '${launch.cwd}' with '${size.cols}' cols and '${size.rows}' rows`;
  const relay = spawnRelay(options.relay, subject);
  // A relay that never ran is told by `close`, and a signal that comes too late by nothing.
  relay.on("error", () => undefined);
  const streams = streamsOf(relay);
  if (streams === undefined) {
    const [error] = await once(relay, "error");
    throw startFault(subject, error);
  }
  const reports = readReports(relay, streams.reports);
  streams.orders.write(encodeOrder("", [...sides(size), ...launchFields(launch)]));
  const silent = Promise.withResolvers<never>();
  const watch = watchSilence(options.silence ?? {}, () => {
    silent.reject(new SandboxError("deadline_exceeded", "the relay of terminals does not answer"));
    relay.kill("SIGKILL");
  });
  try {
    const pid = await Promise.race([reports.pid, silent.promise]);
    return terminalCarrier(relay, { pid, exited: reports.exited, ...streams });
  } catch (error) {
    for (const stream of Object.values(streams)) stream.destroy();
    throw startFault(subject, error);
  } finally {
    watch[Symbol.dispose]();
  }
}

function spawnRelay([file, ...before]: Command, subject: string): ChildProcess {
  try {
    // Nothing of the caller's reaches the relay's own environment: perl obeys some variables.
    return spawn(file, [...before, process.arch], {
      cwd: "/",
      env: { PATH: DEFAULT_PATH, LC_ALL: "C" },
      stdio: ["pipe", "pipe", "ignore", "pipe", "pipe"],
    });
  } catch (error) {
    // Node emits only some of the faults of a start.
    throw startFault(subject, error);
  }
}

interface Streams {
  readonly input: Writable;
  readonly output: Readable;
  readonly orders: Writable;
  readonly reports: Readable;
}

/** Undefined where no descriptor is left: its error follows. */
function streamsOf(relay: ChildProcess): Streams | undefined {
  const pipes: readonly unknown[] | undefined = relay.stdio;
  const [input, output, , orders, reports] = pipes ?? [];
  if (!(input instanceof Writable && output instanceof Readable)) return undefined;
  if (!(orders instanceof Writable && reports instanceof Readable)) return undefined;
  // It never says anything there, but its end is seen only by who reads.
  if (orders instanceof Readable) orders.resume();
  // Broken ones end the relay; its `close` tells.
  for (const stream of [input, output, orders, reports]) stream.on("error", () => undefined);
  return { input, output, orders, reports };
}

/** What the relay says: first who was started, in the end how that one ended. */
function readReports(
  relay: ChildProcess,
  reports: Readable,
): { readonly pid: Promise<number>; readonly exited: Promise<Outcome> } {
  const pid = Promise.withResolvers<number>();
  const exited = Promise.withResolvers<Outcome>();
  createInterface({ input: reports }).on("line", (line) => {
    const [word, number = "", ...what] = line.split(" ");
    if (word === "pid") pid.resolve(Number(number));
    else if (word === "exit") exited.resolve(toOutcome(Number(number), null));
    else if (word === "signal") exited.resolve(signalOutcome(Number(number)));
    else pid.reject(relayError(Number(number), what.join(" ")));
  });
  // Someone in the sandbox may kill the relay: its terminal is hung up then, and its end is told.
  const onEnd = (code: number | null, signal: NodeJS.Signals | null) => {
    pid.reject(new Error("relay ended at once"));
    exited.resolve(toOutcome(code, signal));
  };
  relay.once("close", onEnd);
  // One that was not started is told before its end.
  relay.once("error", pid.reject);
  return { pid: pid.promise, exited: exited.promise };
}

function relayError(errno: number, what: string): Error {
  const code = errno > 0 ? getSystemErrorName(-errno) : "EIO";
  return Object.assign(new Error(what), { code });
}

function terminalCarrier(
  relay: ChildProcess,
  parts: Streams & { readonly pid: number; readonly exited: Promise<Outcome> },
): ProcessStreams {
  const { pid, exited, input, output, orders } = parts;
  let isAlive = true;
  // Both resolve always.
  void exited.then(() => (isAlive = false));
  const closed = once(relay, "close").then(() => undefined);
  return {
    pid,
    input,
    outputs: [{ name: "pty", stream: output }],
    exited,
    closed,
    kill(signal) {
      if (isAlive) killProcess(pid, signal);
    },
    // The relay ends when its orders do, and the kernel hangs the terminal up.
    release() {
      for (const stream of [input, output, orders]) stream.destroy();
    },
    resize: createResize(orders),
  };
}

/** Of the sizes that come while one is on its way to the relay, the newest is sent next. */
function createResize(orders: Writable): (size: TerminalSize) => void {
  let newest: TerminalSize | undefined;
  let isSending = false;
  const send = (): void => {
    if (newest === undefined || isSending || orders.destroyed) return;
    const [cols, rows] = sides(newest);
    const order = Buffer.alloc(4);
    order.writeUInt16BE(cols, 0);
    order.writeUInt16BE(rows, 2);
    newest = undefined;
    isSending = true;
    orders.write(order, () => {
      isSending = false;
      send();
    });
  };
  return (size) => {
    newest = size;
    send();
  };
}

function sides({ cols, rows }: TerminalSize): readonly [number, number] {
  return [cols & MAX_SIDE, rows & MAX_SIDE];
}
