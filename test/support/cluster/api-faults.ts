/** A proxy before the API server of the tests that spoils chosen requests, as networks and proxies do. */

import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { closeServer, listenOnLoopback } from "../loopback.ts";
import { API_IDLE_MS } from "./api-server.ts";

/** What becomes of a request: each is carried out never, once or twice, and answered or not. */
export const API_FAULTS = [
  "cut",
  "lost",
  "late",
  "twice",
  "half",
  "forbidden",
  "redirected",
  "taken for another",
] as const;

export type ApiFault = (typeof API_FAULTS)[number];

export interface ApiFaults extends AsyncDisposable {
  readonly url: string;
  /** Asked about each request but watches and those about Leases, written as `METHOD KIND/NAME`. */
  choose(find: Choose): void;
  /** Resolves when late requests were carried out. */
  settled(): Promise<void>;
}

type Choose = (call: string) => ApiFault | undefined;

const nothing: Choose = () => undefined;

/** After their connection was cut; an undo is under way then. */
const LATE_MS = 60;

interface Whole {
  readonly status: number;
  readonly body: Buffer;
}

export async function startApiFaults(target: string): Promise<ApiFaults> {
  let find: Choose = nothing;
  const late = new Set<Promise<unknown>>();

  function open(incoming: IncomingMessage, body: Buffer): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const { method, headers } = incoming;
    const call = request(new URL(incoming.url ?? "", target), { method, headers, agent: false });
    call.once("response", resolve).once("error", reject).end(body);
    return promise;
  }

  async function carryOut(incoming: IncomingMessage, body: Buffer): Promise<Whole> {
    const reply = await open(incoming, body);
    return { status: reply.statusCode ?? 0, body: await wholeOf(reply) };
  }

  async function spoil(
    fault: ApiFault,
    {
      incoming,
      body,
      outgoing,
    }: { incoming: IncomingMessage; body: Buffer; outgoing: ServerResponse },
  ): Promise<void> {
    if (fault === "forbidden") {
      const status = {
        kind: "Status",
        status: "Failure",
        code: 403,
        reason: "Forbidden",
        message: "planned",
      };
      outgoing.writeHead(403, { "content-type": "application/json" }).end(JSON.stringify(status));
    } else if (fault === "redirected") {
      outgoing.writeHead(307, { location: "https://192.0.2.1/login" }).end();
    } else if (fault === "cut") {
      outgoing.destroy();
    } else if (fault === "late") {
      outgoing.destroy();
      const work = new Promise((resolve) => setTimeout(resolve, LATE_MS)).then(async () =>
        carryOut(incoming, body),
      );
      late.add(work);
      await work.finally(() => late.delete(work));
    } else {
      const first = await carryOut(incoming, body);
      const told = fault === "twice" ? await carryOut(incoming, body) : first;
      if (fault === "lost") outgoing.destroy();
      else if (fault === "taken for another")
        outgoing.writeHead(200, { "content-type": "text/html" }).end("<html>");
      else if (fault === "half") {
        outgoing.writeHead(told.status, { "content-length": told.body.length });
        outgoing.write(told.body.subarray(0, told.body.length / 2), () => outgoing.destroy());
      } else outgoing.writeHead(told.status, { "content-type": "application/json" }).end(told.body);
    }
  }

  const server = createServer({ keepAliveTimeout: API_IDLE_MS }, (incoming, outgoing) => {
    outgoing.on("error", () => undefined);
    const answer = async () => {
      const body = await wholeOf(incoming);
      const url = new URL(incoming.url ?? "", target);
      const isWatch = url.searchParams.has("watch");
      const call = `${incoming.method} ${url.pathname.split("/namespaces/test/")[1] ?? url.pathname}`;
      const fault = isWatch || call.includes(" leases") ? undefined : find(call);
      if (fault !== undefined) return spoil(fault, { incoming, body, outgoing });
      const reply = await open(incoming, body);
      outgoing.writeHead(reply.statusCode ?? 0, reply.headers);
      outgoing.flushHeaders();
      outgoing.once("close", () => reply.destroy());
      reply.on("error", () => outgoing.destroy()).pipe(outgoing);
    };
    answer().catch(() => outgoing.destroy());
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    choose(next) {
      find = next;
    },
    async settled() {
      await Promise.allSettled(late);
    },
    [Symbol.asyncDispose]: () => closeServer(server),
  };
}

async function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of message) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}
