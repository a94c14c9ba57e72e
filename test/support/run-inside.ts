/** Runs a command in a container through its daemon, by the bytes of the wire alone. */

import { request } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { z } from "../../src/common/schema.ts";
import type { Container } from "../../src/engine/engine.ts";

const TIMEOUT_MS = 60_000;
/** Envelope of a Connect stream: one byte of flags, four bytes of length. */
const HEADER_BYTES = 5;
const END_FLAG = 2;

const eventSchema = z.looseObject({
  event: z
    .looseObject({
      data: z
        .looseObject({ stdout: z.string().optional(), stderr: z.string().optional() })
        .optional(),
      end: z.looseObject({ exitCode: z.number().default(0) }).optional(),
    })
    .optional(),
});

export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Opens the daemon to everybody who reaches its socket, as a sandbox without a token is. */
export async function initDaemon(container: Container): Promise<void> {
  const socket = await container.dialControl(AbortSignal.timeout(TIMEOUT_MS));
  const reply = await post(socket, { path: "/init", headers: json, body: Buffer.from("{}") });
  if (reply.status >= 300) throw new Error(`init: ${reply.status} ${reply.body.toString()}`);
}

/** Runs a shell command line as a user; needs {@link initDaemon} before. */
export async function runInside(
  container: Container,
  command: string,
  user = "root",
): Promise<CommandResult> {
  const socket = await container.dial(49_983, AbortSignal.timeout(TIMEOUT_MS));
  const start = { process: { cmd: "/bin/sh", args: ["-c", command] }, stdin: false };
  const reply = await post(socket, {
    path: "/process.Process/Start",
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}`,
    },
    body: envelope(Buffer.from(JSON.stringify(start))),
  });
  return resultOf(reply.body);
}

const json = { "content-type": "application/json" };

interface Call {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

async function post(socket: Socket, call: Call): Promise<{ status: number; body: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: Buffer }>();
  const outgoing = request({
    createConnection: () => socket,
    method: "POST",
    path: call.path,
    headers: { host: "localhost", connection: "close", ...call.headers },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  outgoing.once("error", reject);
  outgoing.once("response", (response) => {
    response.setEncoding("latin1");
    text(response).then(
      (body) => resolve({ status: response.statusCode ?? 0, body: Buffer.from(body, "latin1") }),
      reject,
    );
  });
  outgoing.end(call.body);
  return promise;
}

function envelope(message: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}

function resultOf(stream: Buffer): CommandResult {
  const output = { stdout: "", stderr: "" };
  let exitCode: number | undefined;
  let trailer = "";
  for (let offset = 0; offset < stream.length;) {
    const end = offset + HEADER_BYTES + stream.readUInt32BE(offset + 1);
    const message = stream.subarray(offset + HEADER_BYTES, end).toString("utf8");
    const isEnd = (stream.readUInt8(offset) & END_FLAG) !== 0;
    offset = end;
    if (isEnd) {
      trailer = message;
      continue;
    }
    const { event } = eventSchema.parse(JSON.parse(message));
    output.stdout += decode(event?.data?.stdout);
    output.stderr += decode(event?.data?.stderr);
    if (event?.end !== undefined) exitCode = event.end.exitCode;
  }
  if (exitCode === undefined) throw new Error(`no end event: ${trailer}`);
  return { exitCode, ...output };
}

function decode(base64: string | undefined): string {
  return Buffer.from(base64 ?? "", "base64").toString("utf8");
}
