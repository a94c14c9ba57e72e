/** A Start call at the level of bytes, for figures: no client of ours decodes what comes back. */

import { request, type ClientRequest } from "node:http";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { StartRequestSchema } from "../../../src/gen/process/process_pb.ts";
import { envelope } from "../raw-call.ts";

export interface RawStart {
  readonly command: readonly [string, ...string[]];
  readonly isBinary: boolean;
  readonly socketPath: string;
}

export interface RawOutcome {
  /** Until the first byte of output, which is the second piece at the latest. */
  readonly firstByteMs: number;
  readonly totalMs: number;
  readonly bytes: number;
}

/** Starts a command and counts what comes back. */
export async function startRaw(options: RawStart): Promise<RawOutcome> {
  const { command, isBinary } = options;
  const [cmd, ...args] = command;
  const message = create(StartRequestSchema, { process: { cmd, args: [...args] } });
  const body = isBinary
    ? toBinary(StartRequestSchema, message)
    : toJsonString(StartRequestSchema, message);
  const { promise, resolve, reject } = Promise.withResolvers<RawOutcome>();
  const startedAt = performance.now();
  const call = open(options);
  call.once("error", reject);
  call.once("response", (reply) => {
    let bytes = 0;
    let firstByteMs: number | undefined;
    reply.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      // The event of the start is smaller than this, with any output it is not.
      if (bytes > START_EVENT_BYTES) firstByteMs ??= performance.now() - startedAt;
    });
    reply.once("error", reject);
    reply.once("end", () => {
      const totalMs = performance.now() - startedAt;
      resolve({ firstByteMs: firstByteMs ?? totalMs, totalMs, bytes });
    });
  });
  call.end(envelope(body));
  return promise;
}

const START_EVENT_BYTES = 64;

function open({ socketPath, isBinary }: RawStart): ClientRequest {
  return request({
    socketPath,
    path: "/process.Process/Start",
    method: "POST",
    headers: {
      "content-type": `application/connect+${isBinary ? "proto" : "json"}`,
      "connect-protocol-version": "1",
    },
  });
}
