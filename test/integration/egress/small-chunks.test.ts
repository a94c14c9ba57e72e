/** Chunks of a byte go on in the chunks that came at once: each by itself would hold up all others. */

import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { listenOnLoopback } from "../../support/loopback.ts";
import { startEgressProxy } from "../../support/network/egress-proxy.ts";

const COUNT = 100_000;
const LAST = "0\r\n\r\n";
const BODY = `${"1\r\nx\r\n".repeat(COUNT)}${LAST}`;
const HEAD = "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

/** All that comes on a connection until the last chunk. */
async function readMessage(socket: Socket): Promise<string> {
  const parts: string[] = [];
  for await (const part of socket.iterator({ destroyOnReturn: false })) {
    parts.push(String(part));
    if (parts.slice(-2).join("").endsWith(LAST)) break;
  }
  return parts.join("");
}

test("of a request and of a reply", async () => {
  await using stack = new AsyncDisposableStack();
  const asked = Promise.withResolvers<string>();
  const host = createServer((socket) => {
    void readMessage(socket).then((text) => {
      asked.resolve(text);
      socket.end(`HTTP/1.1 200 OK\r\n${HEAD}${BODY}`);
      return undefined;
    });
  });
  const hostPort = await listenOnLoopback(host);
  stack.defer(() => void host.close());
  const port = await startEgressProxy(stack, hostPort);

  const client = connect({ port, host: "127.0.0.1" });
  client.write(`POST / HTTP/1.1\r\nHost: allowed.test\r\n${HEAD}${BODY}`);
  const reply = await readMessage(client);
  client.destroy();
  for (const text of [await asked.promise, reply]) {
    expect(text.match(/x/g)?.length).toBeGreaterThanOrEqual(COUNT);
    // How much comes at once is up to the kernel; each by itself would be six bytes.
    expect(text.length).toBeLessThan(3 * COUNT);
  }
});
