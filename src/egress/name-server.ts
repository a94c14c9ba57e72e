/** Answers names over UDP and TCP: those that the sandbox may reach, with what they are pinned to. */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { parseQuestion, REPLY_CODES, writeReply, type Answer } from "./dns-message.ts";
import type { Policies } from "./policies.ts";
import type { NameResolver, Pin } from "./resolver.ts";

/** Questions of one sandbox that wait for an answer; further ones are dropped. */
const MAX_WAITING = 64;
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
export async function startNameServer(options: NameServerOptions): Promise<void> {
  const { address, port } = options;
  const waiting = new Map<string, number>();
  const reply = async (sender: string, message: Buffer): Promise<Buffer | undefined> => {
    const count = waiting.get(sender) ?? 0;
    if (count >= MAX_WAITING || !options.policies.knows(sender)) return undefined;
    waiting.set(sender, count + 1);
    try {
      return await answer(options, { sender, message });
    } finally {
      const left = (waiting.get(sender) ?? 1) - 1;
      if (left === 0) waiting.delete(sender);
      else waiting.set(sender, left);
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
  const tcp = createServer((socket) => {
    socket.setTimeout(TCP_IDLE_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    // It ends the socket itself, whatever comes.
    void serveTcp(socket, reply);
  });
  tcp.maxConnections = MAX_WAITING;
  tcp.listen(port, address);
  await once(tcp, "listening");
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
  return writeReply(question, toAnswer(await resolver.lookup(name), now()));
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

/** One question after the other, each with its length before it. */
async function serveTcp(
  socket: Socket,
  reply: (sender: string, message: Buffer) => Promise<Buffer | undefined>,
): Promise<void> {
  const sender = socket.remoteAddress ?? "";
  try {
    for await (const message of readMessages(socket)) {
      const bytes = await reply(sender, message);
      if (bytes === undefined) return;
      const length = Buffer.alloc(2);
      length.writeUInt16BE(bytes.length);
      socket.write(Buffer.concat([length, bytes]));
    }
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
