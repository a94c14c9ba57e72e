/** One request to an MCP endpoint over HTTP and the messages that come back, without any SDK. */

/** A call without an end by then hangs; no tool of these tests waits for longer than a few seconds. */
const END_LIMIT_MS = 60_000;

export type Message = Readonly<Record<string, unknown>>;

export interface Exchange {
  /** 0 where the client left before the answer. */
  readonly status: number;
  readonly session: string | null;
  /** So far. */
  readonly messages: readonly Message[];
  /** Of the newest event; by it a client goes on elsewhere. */
  lastEventId(): string | undefined;
  /** Resolves when nothing more comes, whoever ended it. @throws Error for one that hangs. */
  readonly over: Promise<void>;
}

export interface McpRequest {
  readonly url: string;
  readonly key: string;
  readonly method: "POST" | "GET" | "DELETE";
  readonly session?: string | undefined;
  readonly revision?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly lastEventId?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with each message. */
  readonly onMessage?: ((message: Message) => void) | undefined;
}

const NOTHING: Exchange = {
  status: 0,
  session: null,
  messages: [],
  lastEventId: () => undefined,
  over: Promise.resolve(),
};

/** Resolves when the head of the answer is there. */
export async function exchange(wanted: McpRequest): Promise<Exchange> {
  const { url, key, method, session, revision, body, lastEventId, signal = null } = wanted;
  const headers = {
    authorization: `Bearer ${key}`,
    accept: method === "GET" ? "text/event-stream" : "application/json, text/event-stream",
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(session !== undefined && { "mcp-session-id": session }),
    ...(revision !== undefined && { "mcp-protocol-version": revision }),
    ...(lastEventId !== undefined && { "last-event-id": lastEventId }),
    ...wanted.headers,
  };
  const text = body === undefined ? null : JSON.stringify(body);
  const reply = await fetch(url, { method, headers, body: text, signal }).catch(() => undefined);
  if (reply === undefined) return NOTHING;
  const messages: Message[] = [];
  let newestId: string | undefined;
  const take = (event: string): void => {
    newestId = /^id: (.+)$/m.exec(event)?.[1] ?? newestId;
    const data = /^data: (.+)$/m.exec(event)?.[1];
    if (data === undefined) return;
    for (const message of [JSON.parse(data)].flat()) {
      messages.push(message);
      wanted.onMessage?.(message);
    }
  };
  return {
    status: reply.status,
    session: reply.headers.get("mcp-session-id"),
    messages,
    lastEventId: () => newestId,
    over: withLimit(readAll(reply, take), `${method} ${JSON.stringify(body)?.slice(0, 300)}`),
  };
}

/** A stream that its client left, or that the service cut, just ends. */
async function readAll(reply: Response, take: (event: string) => void): Promise<void> {
  const isStream = reply.headers.get("content-type")?.startsWith("text/event-stream") === true;
  let rest = "";
  const add = (chunk: string): void => {
    const events = `${rest}${chunk}`.split("\n\n");
    rest = isStream ? (events.pop() ?? "") : events.join("\n\n");
    for (const event of isStream ? events : []) take(event);
  };
  try {
    for await (const chunk of reply.body?.pipeThrough(new TextDecoderStream()) ?? []) add(chunk);
  } catch {
    return;
  }
  if (!isStream && rest !== "") take(`data: ${rest}`);
}

async function withLimit(work: Promise<void>, words: string): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no end: ${words}`)), END_LIMIT_MS);
  const limited = Promise.race([work, promise]).finally(() => clearTimeout(timer));
  // Whoever waits for it learns of it, too.
  limited.catch(() => undefined);
  return limited;
}
