/** What streams that nobody reads do to the others: added delay, and memory of the daemon. */

import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { TestDaemon } from "../daemon/envd.ts";
import { envelope } from "../raw-call.ts";
import { toTarget } from "./daemon-target.ts";
import { residentBytes } from "./fuzz.ts";

export interface SlowReaderFigures {
  /** 99th percentile of a healthy reader of the same process, in milliseconds. */
  readonly beforeMs: number;
  readonly duringMs: number;
  /** Whether the healthy reader was cut off too, as one that a busy machine does not let read. */
  readonly isCut: boolean;
  /** The highest resident size while nobody read, less the one before, in bytes. */
  readonly growthBytes: number;
}

/** Prints the time and 64 KiB a hundred times a second, more than a pipe and a queue hold. */
const PRODUCER = `const rest = "x".repeat(65536);
setInterval(() => process.stdout.write("\\n" + (performance.timeOrigin + performance.now()) + "\\n" + rest), 10);`;
const WARM_MS = 700;
const LONG_MS = 2_000;
const STAMP = /\n(\d{13}\.\d+)\n/g;

/** Compares a healthy reader before and while `count` others never read. */
export async function measureSlowReaders(
  daemon: TestDaemon,
  count: number,
): Promise<SlowReaderFigures> {
  const { pid: daemonPid } = await toTarget(daemon);
  const controller = new AbortController();
  const stream = daemon.processes.start(
    { process: { cmd: process.execPath, args: ["-e", PRODUCER] }, tag: "producer" },
    { signal: controller.signal },
  );
  let delaysMs: number[] = [];
  const reading = (async () => {
    for await (const { event } of stream) {
      if (event?.event.case !== "data") continue;
      const nowMs = performance.timeOrigin + performance.now();
      const text = Buffer.from(event.event.value.output.value ?? []).toString("latin1");
      for (const [, stamp] of text.matchAll(STAMP)) delaysMs.push(nowMs - Number(stamp));
    }
  })().then(
    () => undefined,
    (error: unknown) => ConnectError.from(error),
  );
  await delay(WARM_MS);
  delaysMs = [];
  await delay(WARM_MS);
  const beforeMs = percentile(delaysMs);
  const before = residentBytes(daemonPid);
  delaysMs = [];
  const idle = Array.from({ length: count }, () => joinWithoutReading(daemon));
  let peak = before;
  for (let waited = 0; waited < LONG_MS; waited += 100) {
    await delay(100);
    peak = Math.max(peak, residentBytes(daemonPid));
  }
  const duringMs = percentile(delaysMs);
  for (const socket of idle) socket.destroy();
  await daemon.processes.sendSignal({
    process: { selector: { case: "tag", value: "producer" } },
    signal: 9,
  });
  const failure = await reading;
  const isCut = failure?.code === Code.ResourceExhausted;
  if (failure !== undefined && !isCut) throw failure;
  return { beforeMs, duringMs, isCut, growthBytes: peak - before };
}

/** A subscriber of the process with the tag `producer`, from whose socket nothing is read. */
export function joinWithoutReading(daemon: TestDaemon): Socket {
  const body = envelope('{"process":{"tag":"producer"}}');
  const head = [
    "POST /process.Process/Connect HTTP/1.1",
    "Host: x",
    "Content-Type: application/connect+json",
    "Connect-Protocol-Version: 1",
    "Connection: close",
    `Content-Length: ${body.length}`,
  ].join("\r\n");
  const socket = connect(daemon.publicSocket);
  // It goes away with its daemon at the latest.
  socket.on("error", () => socket.destroy());
  socket.pause();
  socket.write(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body]));
  return socket;
}

function percentile(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
}
