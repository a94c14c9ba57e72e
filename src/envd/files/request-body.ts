/** The body of an upload as it was before any coding, so that a failure can still be answered. */

import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { SandboxError, causeCode } from "../../common/errors.ts";
import { drainRequest, type Exchange } from "../exchange.ts";

export interface RequestBody extends Disposable {
  /** One pass over the content. Leaving it early leaves the connection open. */
  readonly chunks: AsyncIterator<Buffer>;
  /** The announced length of the request, coded as it is; undefined when there is none. */
  readonly length: string | undefined;
}

/** A client that is waited for and sends nothing for this long has gone, whatever its connection says. */
const IDLE_MS = 60_000;

/** @throws SandboxError invalid_argument for an unknown coding; its use, for broken gzip. */
export function openRequestBody(
  exchange: Pick<Exchange, "request" | "response">,
  idleMs = IDLE_MS,
): RequestBody {
  const { request, response } = exchange;
  const coding = (request.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (coding !== "identity" && coding !== "gzip" && coding !== "") {
    const reason = `unsupported Content-Encoding: ${coding}, supported: [gzip]`;
    throw new SandboxError("invalid_argument", `error decompressing request body: ${reason}`);
  }
  const checkSilence = () => {
    // What has come already is not taken yet, as by a slow disk: the client may have to wait.
    if (request.readableLength > 0 || request.complete) request.setTimeout(idleMs);
    else request.destroy();
  };
  request.setTimeout(idleMs, checkSilence);
  // A request that has come whole is told no timeout: its connection would end.
  response.on("timeout", checkSilence);
  // A client that has sent all waits for its reply, however long that takes.
  request.once("end", () => request.setTimeout(0));
  const content = coding === "gzip" ? unzipped(request) : request;
  return {
    chunks: read(content),
    length: request.headers["content-length"],
    [Symbol.dispose]() {
      request.setTimeout(0);
      request.off("timeout", checkSilence);
      response.off("timeout", checkSilence);
      request.unpipe();
      if (content !== request) content.destroy();
      drainRequest(exchange);
    },
  };
}

function unzipped(request: Readable): Readable {
  const gunzip = createGunzip();
  // A reader gets the error from the stream; when there is none any more, it changes nothing.
  gunzip.on("error", () => undefined);
  // `pipe` alone would leave the reader waiting when the client is gone.
  request.once("error", (error) => gunzip.destroy(error));
  request.once("close", () => {
    if (!request.readableEnded) gunzip.destroy();
  });
  return request.pipe(gunzip);
}

async function* read(content: Readable): AsyncGenerator<Buffer> {
  try {
    // The stream stays whole when its reader stops: the reply goes over the same connection.
    for await (const chunk of content.iterator({ destroyOnReturn: false })) {
      if (Buffer.isBuffer(chunk)) yield chunk;
    }
  } catch (error) {
    const isGzipFault = causeCode(error)?.startsWith("Z_") ?? false;
    const code = isGzipFault ? "invalid_argument" : "canceled";
    const reason = isGzipFault
      ? "error decompressing request body: failed to create gzip reader: gzip: invalid header"
      : "request ended before its body";
    throw new SandboxError(code, reason, { cause: error });
  }
}
