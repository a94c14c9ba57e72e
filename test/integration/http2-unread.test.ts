/** Replies over HTTP/2 that their client does not read. */

import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect } from "node:http2";
import { expect, test } from "vitest";
import { createSilentLog } from "../../src/common/log.ts";
import { startListener } from "../../src/listener/listener.ts";
import { makeCertificate } from "../support/network/certificate.ts";

const HOST = "127.0.0.1";
const REPLY = Buffer.alloc(60_000, "x");

const unused = async () => undefined;

test.for([
  ["of one piece", [REPLY]],
  ["of many pieces", Array.from({ length: 600 }, () => REPLY.subarray(0, 100))],
  ["without a body", []],
] as const)("a reply %s is over for its handler once its client has it", async ([, pieces]) => {
  await using certificate = await makeCertificate(["localhost"]);
  const replies: ServerResponse[] = [];
  await using listener = await startListener({
    addresses: [{ kind: "tcp", host: HOST, port: 0, tls: certificate.identity }],
    domain: "sandbox.localhost",
    handlers: {
      isReady: () => true,
      async control(_request, response) {
        replies.push(response);
        for (const piece of pieces) response.write(piece);
        response.end();
      },
      mcp: unused,
      gateway: unused,
      upgrade: unused,
    },
    log: createSilentLog(),
    graceMs: 0,
  });
  const settings = { initialWindowSize: 0 };
  const session = connect(`https://localhost:${listener.ports[0]}`, {
    lookup: (_name, _options, done) => done(null, [{ address: HOST, family: 4 }]),
    rejectUnauthorized: false,
    settings,
  });
  try {
    const stream = session.request({ ":path": "/sandboxes" });
    await once(stream, "response");
    // The service has answered all that came before.
    const { promise, resolve } = Promise.withResolvers<void>();
    session.ping(() => resolve());
    await promise;
    expect(replies.map(({ writableFinished }) => writableFinished)).toEqual([pieces.length === 0]);
    session.settings({ initialWindowSize: 1_000_000 });
    const received: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => received.push(chunk));
    await once(stream, "end");
    expect(Buffer.concat(received)).toEqual(Buffer.concat(pieces));
    await expect.poll(() => replies[0]?.writableFinished).toBe(true);
  } finally {
    session.destroy();
  }
});
