/** The API of Amazon ECR on loopback: it checks signatures, and answers as it is told to. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { signRequest } from "../../../src/images/aws-signature.ts";
import type { EcrLogin } from "../../../src/images/ecr.ts";
import { listenOnLoopback } from "../loopback.ts";

export const ECR_KEY: EcrLogin = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  region: "eu-west-1",
};

/** A registry of that region. */
export const ECR_HOST = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";

export interface FakeEcr extends AsyncDisposable {
  readonly endpoint: string;
  /** What it answers to a request with a right signature, until it is told otherwise. */
  answer(status: number, body: string): void;
  /** From now on it never answers. */
  hang(): void;
  /** Requests that have come. */
  readonly calls: () => number;
}

/** Its first answer is the login `username:password`. */
export async function startFakeEcr(login: string): Promise<FakeEcr> {
  const data = [
    {
      authorizationToken: Buffer.from(login).toString("base64"),
      expiresAt: 1,
      proxyEndpoint: `https://${ECR_HOST}`,
    },
  ];
  let reply: { readonly status: number; readonly body: string } | undefined = {
    status: 200,
    body: JSON.stringify({ authorizationData: data }),
  };
  let calls = 0;
  const answerTo = (request: IncomingMessage, response: ServerResponse, body: string) => {
    calls += 1;
    if (reply === undefined) return;
    const { status, body: answer } = faultOf(request, body) ?? reply;
    response.writeHead(status, { "content-type": "application/x-amz-json-1.1" }).end(answer);
  };
  const server = createServer((request, response) => {
    text(request).then(
      (body) => answerTo(request, response, body),
      () => response.destroy(),
    );
  });
  const port = await listenOnLoopback(server);
  return {
    endpoint: `http://127.0.0.1:${port}/`,
    answer: (status, body) => {
      reply = { status, body };
    },
    hang: () => {
      reply = undefined;
    },
    calls: () => calls,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** What ECR answers to a request that another key signed, or that asks for something else. */
function faultOf({ headers, method, url }: IncomingMessage, body: string) {
  const time =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(headers["x-amz-date"])) ?? [];
  const [year = 0, month = 0, ...rest] = time.slice(1).map(Number);
  const [day = 0, hours = 0, minutes = 0, seconds = 0] = rest;
  const atMs = Date.UTC(year, month - 1, day, hours, minutes, seconds);
  const signed = signRequest(
    {
      method: "POST",
      host: String(headers.host),
      headers: {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
      },
      body: "{}",
      region: ECR_KEY.region,
      service: "ecr",
      atMs,
    },
    ECR_KEY,
  );
  const isSame = Object.entries(signed).every(([name, value]) => headers[name] === value);
  if (isSame && method === "POST" && url === "/" && body === "{}") return undefined;
  // As AWS does, the message repeats what it was sent.
  const message = `${headers.authorization} does not match`;
  return { status: 400, body: JSON.stringify({ __type: "InvalidSignatureException", message }) };
}
