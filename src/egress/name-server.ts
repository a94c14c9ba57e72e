/** Answers names over UDP and TCP: those that the sandbox may reach, with what they are pinned to. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { parseQuestion, REPLY_CODES, writeReply, type Answer } from "./dns-message.ts";
import type { Policies } from "./policies.ts";
import type { NameResolver, Pin } from "./resolver.ts";
import { createShares } from "./shares.ts";

/** Questions that wait for an answer, of one sandbox and of all; further ones are dropped. */
const MAX_WAITING = { ofOne: 64, ofAll: 1_024 } as const;
const MAX_TCP_MESSAGE_BYTES = 4_096;
const TCP_IDLE_MS = 10_000;

export interface NameServerOptions {
  readonly address: string;
  readonly port: number;
  readonly policies: Policies;
  readonly resolver: NameResolver;
  readonly now: () => number;
}

/** Listens; what is no question of a known sandbox gets no reply. */
export async function startNameServer(options: NameServerOptions): Promise<Disposable> {
  const { address, port } = options;
  const shares = createShares(MAX_WAITING);
  const reply = async (sender: string, message: Buffer): Promise<Buffer | undefined> => {
    if (!options.policies.knows(sender)) return undefined;
    const giveBack = shares.take(sender);
    if (giveBack === undefined) return undefined;
    try {
      return await answer(options, { sender, message });
    } finally {
      giveBack();
    }
  };
  const udp = createSocket("udp4");
  udp.on("message", (message, peer) => {
    // Nothing in it rejects; a reply that cannot be sent is as good as one that was lost.
    void (async () => {
      const bytes = await reply(peer.address, message);
      if (bytes !== undefined) udp.send(bytes, peer.port, peer.address, () => undefined);
    })();
  });
  udp.bind(port, address);
  await once(udp, "listening");
  // A client may end its side behind its questions: the replies still go out.
  const tcp = createServer({ allowHalfOpen: true }, (socket) => {
    const end = () => void socket.destroy();
    socket.setTimeout(TCP_IDLE_MS, end);
    socket.on("error", end);
    // Counted as connections to a host: the share of each sandbox stays its own.
    const release = options.policies.hold(socket.remoteAddress ?? "", { name: undefined, end });
    if (release === undefined) {
      end();
      return;
    }
    socket.once("close", release);
    // It ends the socket itself, whatever comes.
    void serveTcp(socket, reply);
  });
  tcp.listen(port, address);
  await once(tcp, "listening");
  return {
    [Symbol.dispose]() {
      udp.close();
      tcp.close();
    },
  };
}

async function answer(
  { policies, resolver, now }: NameServerOptions,
  asked: { readonly sender: string; readonly message: Buffer },
): Promise<Buffer | undefined> {
  const question = parseQuestion(asked.message);
  if (question === undefined) return undefined;
  const { name } = question;
  const empty = { addresses: [], ttlSeconds: 0 };
  if (name === undefined || !policies.mayReach(asked.sender, name)) {
    return writeReply(question, { ...empty, code: REPLY_CODES.noName });
  }
  // Sandboxes have no IPv6, and no other record leads them anywhere.
  if (!question.asksAddress) return writeReply(question, { ...empty, code: REPLY_CODES.ok });
  return writeReply(question, toAnswer(await resolver.lookup(asked.sender, name), now()));
}

function toAnswer({ outcome, addresses, untilMs }: Pin, nowMs: number): Answer {
  const codes = {
    found: REPLY_CODES.ok,
    "no name": REPLY_CODES.noName,
    failed: REPLY_CODES.failed,
  };
  const ttlSeconds = Math.max(0, Math.ceil((untilMs - nowMs) / 1_000));
  return { code: codes[outcome], addresses, ttlSeconds };
}

/**
 * One question after the other, each with its length before it. Of a client that takes no replies no
 * more is read.
 */
async function serveTcp(
  socket: Socket,
  reply: (sender: string, message: Buffer) => Promise<Buffer | undefined>,
): Promise<void> {
  const sender = socket.remoteAddress ?? "";
  async function* answerAll(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const message of readMessages(chunks)) {
      const bytes = await reply(sender, message);
      if (bytes === undefined) return;
      const length = Buffer.alloc(2);
      length.writeUInt16BE(bytes.length);
      yield Buffer.concat([length, bytes]);
    }
  }
  try {
    await pipeline(socket, answerAll, socket);
  } catch {
    // A peer that vanishes is no fault of ours; the socket ends below.
  } finally {
    socket.destroy();
  }
}

async function* readMessages(socket: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of socket) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
      const end = 2 + rest.readUInt16BE(0);
      yield rest.subarray(2, end);
      rest = rest.subarray(end);
    }
    if (rest.length > MAX_TCP_MESSAGE_BYTES) return;
  }
}
