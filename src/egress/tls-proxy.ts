/** Passes TLS connections on, unopened, to the host that their first message names. */

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { joinStreams } from "../common/join-streams.ts";
import { readServerName } from "./client-hello.ts";
import type { Policies } from "./policies.ts";
import { dialName, type NameResolver } from "./resolver.ts";

const TLS_PORT = 443;
const HELLO_TIMEOUT_MS = 10_000;
/** A message comes in a few pieces, each of which is read with all that is there before it. */
const MAX_HELLO_READS = 64;
const MAX_HELLO_BYTES = 131_072;
const IDLE_MS = 3_600_000;
/** A fatal alert: access_denied. */
const DENIED = Buffer.from([21, 3, 1, 0, 2, 2, 49]);

export interface TlsProxyOptions {
  readonly address: string;
  readonly port: number;
  readonly policies: Policies;
  readonly resolver: NameResolver;
}

/** Listens; a handshake for a host that its sandbox may not reach is refused by an alert. */
export async function startTlsProxy(options: TlsProxyOptions): Promise<Disposable> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    // It ends the socket itself, whatever comes.
    void serve(options, socket);
  });
  server.listen(options.port, options.address);
  await once(server, "listening");
  return { [Symbol.dispose]: () => void server.close() };
}

async function serve({ policies, resolver }: TlsProxyOptions, socket: Socket): Promise<void> {
  const sender = socket.remoteAddress ?? "";
  const end = () => void socket.destroy();
  const held: { name: string | undefined; end(): void } = { name: undefined, end };
  const release = policies.hold(sender, held);
  if (release === undefined) {
    end();
    return;
  }
  try {
    const hello = await readHello(socket);
    if (hello === undefined || !policies.mayReach(sender, hello.name)) {
      socket.end(DENIED, end);
      return;
    }
    held.name = hello.name;
    const target = await dialName(resolver, { sender, name: hello.name, port: TLS_PORT });
    if (target === undefined) return end();
    // The sandbox's own side may have closed before the other one has.
    held.end = () => {
      end();
      target.destroy();
    };
    await join(socket, target, hello.sent);
  } catch {
    // Either side may vanish at any moment; the other one ends with it.
    end();
  } finally {
    release();
  }
}

/** Reads up to the end of the first message; undefined when it names no host or does not come. */
async function readHello(socket: Socket): Promise<{ name: string; sent: Buffer } | undefined> {
  const limit = setTimeout(() => void socket.destroy(), HELLO_TIMEOUT_MS);
  let sent: Buffer = Buffer.alloc(0);
  let reads = 0;
  try {
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
      sent = Buffer.concat([sent, chunk]);
      reads += 1;
      const found = readServerName(sent);
      if (found.kind === "refused") return undefined;
      if (found.kind === "name") return { name: found.name, sent };
      if (reads >= MAX_HELLO_READS || sent.length > MAX_HELLO_BYTES) return undefined;
    }
    return undefined;
  } finally {
    clearTimeout(limit);
  }
}

async function join(client: Socket, target: Socket, sent: Buffer): Promise<void> {
  const closed = [client, target].map(
    async (socket) => new Promise<void>((resolve) => void socket.once("close", () => resolve())),
  );
  client.setTimeout(IDLE_MS, () => client.destroy());
  if (client.destroyed) {
    target.destroy();
    return;
  }
  target.write(sent);
  joinStreams(client, target);
  await Promise.all(closed);
}
