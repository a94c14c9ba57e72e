/** An HTTP server on a free port that records every request and answers as it is told. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { readBody } from "../../src/common/http.ts";

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
  const { promise: listening, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await listening;
  // A server that listens on TCP has this form of address.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      const { promise: closed, resolve: done } = Promise.withResolvers<void>();
      server.close(() => done());
      await closed;
    },
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
