/** Runs a command in a container through its daemon, by the bytes of the wire alone. */

import { request } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { z } from "../../../src/common/schema.ts";
import type { Container } from "../../../src/engine/engine.ts";
import { envelope, readEnvelopes } from "../raw-call.ts";

const TIMEOUT_MS = 60_000;
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
  const socket = await container.dialPublic(AbortSignal.timeout(TIMEOUT_MS));
  const start = { process: { cmd: "/bin/sh", args: ["-c", command] }, stdin: false };
  const reply = await post(socket, {
    path: "/process.Process/Start",
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      authorization: `Basic ${Buffer.from(`${user}:`).toString("base64")}`,
    },
    body: envelope(JSON.stringify(start)),
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

function resultOf(stream: Buffer): CommandResult {
  const output = { stdout: "", stderr: "" };
  let exitCode: number | undefined;
  let trailer: unknown;
  for (const { flags, json: message } of readEnvelopes(stream)) {
    if (flags === END_FLAG) {
      trailer = message;
      continue;
    }
    const { event } = eventSchema.parse(message);
    output.stdout += decode(event?.data?.stdout);
    output.stderr += decode(event?.data?.stderr);
    if (event?.end !== undefined) exitCode = event.end.exitCode;
  }
  if (exitCode === undefined) throw new Error(`no end event: ${JSON.stringify(trailer)}`);
  return { exitCode, ...output };
}

function decode(base64: string | undefined): string {
  return Buffer.from(base64 ?? "", "base64").toString("utf8");
}
