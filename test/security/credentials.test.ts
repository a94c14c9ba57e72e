/**
 * R6: what opens the platform never reaches a program in a sandbox, however it is spelled, while
 * what is the application's own arrives as it was sent.
 */

import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SandboxBody } from "../../src/wire/control.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { sendRaw, statusesIn } from "../support/raw-call.ts";
import { tellCells } from "../support/run/cells.ts";
import { startTestService, type TestService } from "../support/service.ts";

interface Recorder extends AsyncDisposable {
  readonly port: number;
  /** The bytes of every connection so far; they are forgotten then. */
  take(): string;
}

let service: TestService;
let recorder: Recorder;
let sandbox: SandboxBody;
beforeAll(async () => {
  service = await startTestService();
  recorder = await startRecorder();
  sandbox = await service.create({ network: { allowPublicTraffic: false } });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await recorder[Symbol.asyncDispose]();
});

/** A key like one of the platform that is none, and a header of the application. */
const OWN = ["authorization: Bearer my-own", `x-own: e2b_${"5".repeat(40)}`];

interface Secrets {
  readonly key: string;
  readonly token: string;
}

interface Spelling {
  readonly headers: readonly string[];
  /** Options of the connection. */
  readonly options?: readonly string[];
  /** After the head: a body in chunks, whose trailer may say anything. */
  readonly chunks?: string;
}

const SPELLINGS: Readonly<Record<string, (secrets: Secrets) => Spelling>> = {
  "the header of keys": ({ key }) => ({ headers: [`x-api-key: ${key}`] }),
  twice: ({ key }) => ({ headers: [`X-API-Key: ${key}`, `x-api-key: ${key}`] }),
  "with blanks around it": ({ key }) => ({ headers: [`X-API-Key: \t ${key} \t`] }),
  Bearer: ({ key }) => ({ headers: [`Authorization: Bearer ${key}`] }),
  bearer: ({ key }) => ({ headers: [`authorization: bearer   ${key}`] }),
  "the user of Basic": ({ key }) => ({ headers: [`Authorization: Basic ${encode(`${key}:`)}`] }),
  "the password of Basic": ({ key }) => ({
    headers: [`Authorization: basic ${encode(`user:${key}`)}`],
  }),
  "a subprotocol": ({ key }) => ({ headers: [`Sec-WebSocket-Protocol: app, ${key}`] }),
  "a header that is for one connection": ({ key }) => ({
    headers: [`x-secret: ${key}`],
    options: ["x-secret"],
  }),
  "a trailer": ({ key }) => ({
    headers: ["transfer-encoding: chunked", "trailer: x-api-key"],
    chunks: `2\r\nhi\r\n0\r\nx-api-key: ${key}\r\n\r\n`,
  }),
  "a cookie": ({ key }) => ({ headers: [`Cookie: a=1; key=${key}`] }),
  "percent signs": ({ key }) => ({ headers: [`x-secret: key=${key.replace("_", "%5F")}`] }),
  "base64url of a longer text": ({ key }) => ({
    headers: [`x-secret: ${Buffer.from(`{"key":"${key}"}`).toString("base64url")}`],
  }),
  "the name of a header": ({ key }) => ({ headers: [`${key}: 1`] }),
  // It is there in each of them: without it nobody gets in.
  "the token of private ports": () => ({ headers: [] }),
  "the token of the daemon": ({ token }) => ({ headers: [`X-Access-Token: ${token}`] }),
};

function encode(text: string): string {
  return Buffer.from(text).toString("base64");
}

const WAYS = [
  { way: "a request", options: ["close"], headers: [] },
  {
    way: "a WebSocket",
    options: ["upgrade"],
    headers: ["upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: AAAA"],
  },
];

test.for(WAYS)(
  "R6 16 spellings, none of which arrives with $way",
  async ({ way, ...how }, context) => {
    const key = service.embedded.apiKey;
    const token = String(sandbox.envdAccessToken);
    const traffic = String(sandbox.trafficAccessToken);
    const spellings = Object.entries(SPELLINGS);
    expect(spellings).toHaveLength(16);
    for (const [name, spell] of spellings) {
      const { headers, options = [], chunks } = spell({ key, token });
      // What follows the head of an upgrade is not HTTP.
      if (chunks !== undefined && way !== "a request") continue;
      const isOwn = headers.every((line) => !/^authorization/i.test(line));
      const own = isOwn ? OWN : OWN.slice(1);
      const lines = [
        `${chunks === undefined ? "GET" : "POST"} /path HTTP/1.1`,
        "host: localhost",
        `e2b-sandbox-id: ${sandbox.sandboxID}`,
        `e2b-sandbox-port: ${recorder.port}`,
        `e2b-traffic-access-token: ${traffic}`,
        `connection: ${[...how.options, ...options].join(", ")}`,
        ...how.headers,
        ...headers,
        ...own,
      ];
      const bytes = Buffer.from(`${lines.join("\r\n")}\r\n\r\n${chunks ?? ""}`, "latin1");
      const reply = await sendRaw({ path: service.embedded.socketPath }, bytes);
      const arrived = recorder.take();
      expect([name, statusesIn(reply)[0]]).toEqual([name, way === "a request" ? 200 : 101]);
      const encoded = [`${key}:`, `user:${key}`, `{"key":"${key}"}`].map((text) => encode(text));
      const secrets = [key, key.replace("_", "%5F"), token, traffic, ...encoded];
      expect([name, secrets.filter((secret) => arrived.includes(secret))]).toEqual([name, []]);
      expect([name, own.filter((line) => !arrived.includes(line))]).toEqual([name, []]);
    }
    tellCells(context, way === "a request" ? spellings.length : spellings.length - 1);
  },
);

/** A server as it may run in a sandbox that keeps every byte. */
async function startRecorder(): Promise<Recorder> {
  let kept = "";
  const server = createServer((socket) => {
    let text = "";
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      kept += chunk.toString("latin1");
      const isWhole = /^transfer-encoding: chunked/im.test(text)
        ? /\r\n0\r\n(?:[^\r\n]+\r\n)*\r\n$/.test(text)
        : text.endsWith("\r\n\r\n");
      if (!isWhole) return;
      const isUpgrade = /^upgrade: websocket/im.test(text);
      socket.end(
        isUpgrade
          ? "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
          : "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
      );
    });
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    take() {
      const text = kept;
      kept = "";
      return text;
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      await closed;
    },
  };
}
