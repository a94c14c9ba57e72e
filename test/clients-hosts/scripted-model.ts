/**
 * A model without a mind: it answers the requests of a host with the next tool call of a script,
 * and keeps what the host makes of each result. It speaks the Messages API and the Responses API.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { closeServer, listenOnLoopback } from "../support/loopback.ts";
import { MESSAGES_API } from "./messages-api.ts";
import type { Script, ShownResult } from "./model-api.ts";
import { RESPONSES_API } from "./responses-api.ts";

export interface ScriptedModel extends AsyncDisposable {
  readonly url: string;
  /** Begins a new conversation. */
  play(script: Script): void;
  /** What the conversation has shown so far, in the order of its calls. */
  shown(): readonly ShownResult[];
}

const APIS = [MESSAGES_API, RESPONSES_API];
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Listens on loopback. */
export async function startScriptedModel(): Promise<ScriptedModel> {
  let script: Script | undefined;
  let shown: readonly ShownResult[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const api = APIS.find(({ path }) => request.url?.split("?")[0] === path);
    const body = await readBody(request);
    if (api === undefined || request.method !== "POST") {
      response.writeHead(404, { "content-type": "application/json" }).end("{}");
      return;
    }
    const results = api.readResults(body);
    // A request without our tools asks for a title or a summary.
    if (results !== undefined && results.length >= shown.length) shown = results;
    const call = results === undefined ? undefined : script?.(results);
    const id = `call_${results?.length ?? 0}`;
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of api.reply(body, { id, call })) {
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    response.end();
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      response.destroy();
      process.stderr.write(`scripted model: ${String(error)}\n`);
    });
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    play(wanted) {
      script = wanted;
      shown = [];
    },
    shown: () => shown,
    [Symbol.asyncDispose]: () => closeServer(server),
  };
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MAX_BODY_BYTES) throw new Error(`a request of more than ${MAX_BODY_BYTES} bytes`);
    chunks.push(bytes);
  }
  const text = Buffer.concat(chunks).toString();
  return text === "" ? {} : JSON.parse(text);
}
