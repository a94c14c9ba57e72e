/** An HTTP server on a free port that records every request and answers as it is told. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { readBody } from "../../../src/common/http.ts";
import { closeServer, listenOnLoopback } from "../loopback.ts";

export interface RecordedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Answer = (request: RecordedRequest, response: ServerResponse) => void;

export interface Recorder extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly RecordedRequest[];
}

const MAX_BODY_BYTES = 10_000_000;

/** Starts the server. */
export async function startRecorder(answer: Answer): Promise<Recorder> {
  const requests: RecordedRequest[] = [];
  const server = createServer((request, response) => {
    void readBody(request, MAX_BODY_BYTES).then((body) => {
      const { method = "", url = "", headers } = request;
      const recorded = { method, url, headers, body: body.toString("utf8") };
      requests.push(recorded);
      answer(recorded, response);
      return undefined;
    });
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    [Symbol.asyncDispose]: () => closeServer(server),
  };
}

/** Answers with JSON. */
export function answerJson(
  response: ServerResponse,
  status: number,
  reply: { readonly body: unknown; readonly headers?: Readonly<Record<string, string>> },
): void {
  response.writeHead(status, { "content-type": "application/json", ...reply.headers });
  response.end(JSON.stringify(reply.body));
}
