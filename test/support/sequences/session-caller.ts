/** Calls in sessions that others may end meanwhile: each has one answer that fits, and none hangs. */

import { z } from "../../../src/common/schema.ts";
import { toReply, type ToolReply } from "../mcp/tool-reply.ts";
import type { Random } from "../random.ts";
import { exchange, type Exchange, type McpRequest, type Message } from "./mcp-exchange.ts";
import type { Moments } from "./register.ts";
import { SandboxModel, SessionModel } from "./session-model.ts";
import { SequenceFault } from "./world.ts";

export const SLOTS = 4;
export const SANDBOXES = 2;
/** With batches, without resumable calls, and with. */
const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25"] as const;
/** Of the era without sessions. */
const NEWER_REVISION = "2026-07-28";
const NEWER_META = {
  "io.modelcontextprotocol/protocolVersion": NEWER_REVISION,
  "io.modelcontextprotocol/clientCapabilities": {},
};
/** All calls of all hosts share it. */
const PROGRESS_TOKEN = "same";
/** All calls without a session share it. */
const NEWER_ID = "same";

export interface SessionWorld {
  readonly url: string;
  readonly key: string;
  /** Of another team. */
  readonly otherKey: string;
  readonly moments: Moments;
  readonly maxCalls: number;
  readonly done: string[];
  readonly sessions: (SessionModel | undefined)[];
  readonly sandboxes: (SandboxModel | undefined)[];
  calls: number;
}

const resultSchema = z.record(z.string(), z.unknown());
const answerSchema = z.object({
  id: z.union([z.string(), z.number()]),
  result: resultSchema.optional(),
  error: z.object({ code: z.number(), message: z.string() }).optional(),
});
type Answer = z.infer<typeof answerSchema>;

export interface Sent {
  readonly session: SessionModel;
  readonly beganAt: number;
  readonly id: string;
  readonly words: string;
}

export class SessionCaller {
  readonly #world: SessionWorld;
  readonly #random: Random;
  readonly #name: string;
  #ids = 0;

  constructor(world: SessionWorld, random: Random, name: string) {
    this.#world = world;
    this.#random = random;
    this.#name = name;
  }

  nextId(): string {
    this.#ids += 1;
    return `${this.#name}${this.#ids}`;
  }

  send(session: SessionModel | undefined, request: Partial<McpRequest>): Promise<Exchange> {
    const { url, key } = this.#world;
    this.#world.calls += 1;
    const { id, revision } = session ?? {};
    return exchange({ url, key, method: "POST", session: id, revision, ...request });
  }

  note(words: string): void {
    this.#world.done.push(`${this.#name} ${words.slice(0, 400)}`);
  }

  /** That of a slot; one that is gone is replaced. */
  async session(wanted = this.#random.pick(REVISIONS)): Promise<SessionModel> {
    const slot = this.#random.below(SLOTS);
    const known = this.#world.sessions[slot];
    if (known?.mayBeGone() === false) return known;
    const params = {
      protocolVersion: wanted,
      capabilities: {},
      clientInfo: { name: "host", version: "1" },
    };
    const body = { jsonrpc: "2.0", id: 0, method: "initialize", params };
    const opened = await this.send(undefined, { body });
    await opened.over;
    if (opened.status !== 200 || opened.session === null)
      throw new SequenceFault(`no session: ${opened.status} ${JSON.stringify(opened.messages)}`);
    const session = new SessionModel(opened.session, wanted);
    const ready = { jsonrpc: "2.0", method: "notifications/initialized" };
    const { status } = await this.send(session, { body: ready });
    if (status !== 202) throw new SequenceFault(`the host is not ready: ${status}`);
    this.note(`opens ${session.id} ${wanted}`);
    this.#world.sessions[slot] = session;
    return session;
  }

  async sandbox(): Promise<SandboxModel> {
    const slot = this.#random.below(SANDBOXES);
    for (;;) {
      const known = this.#world.sandboxes[slot];
      if (known?.mayBeGone() === false) return known;
      const reply = await this.call("create_sandbox", { timeout_seconds: 3600 });
      const { sandbox_id: id } = reply?.fields ?? {};
      if (typeof id !== "string") continue;
      const made = new SandboxModel(id, this.#world.moments);
      const present = this.#world.sandboxes[slot];
      // Another host may have been first; what nobody knows ends with the test.
      if (present === known) this.#world.sandboxes[slot] = made;
    }
  }

  toolBody(id: string, name: string, input: object) {
    const _meta = { progressToken: PROGRESS_TOKEN };
    const params = { name, arguments: input, _meta };
    return { jsonrpc: "2.0", id, method: "tools/call", params } as const;
  }

  begin(session: SessionModel, id: string, words: string): Sent {
    return { session, beganAt: this.#world.moments.next(), id, words: `${words} ${session.id}` };
  }

  /** The one answer; undefined where the session may have ended first. @throws SequenceFault */
  answerTo(sent: Sent, { status, messages }: Pick<Exchange, "status" | "messages">) {
    const { session, beganAt, id, words } = sent;
    const answers = answersTo(messages, id);
    this.note(`${words} ${id} -> ${status} ${JSON.stringify(answers)}`);
    if (session.goneAt < beganAt && status !== 404)
      throw new SequenceFault(`${words} in a session that is gone: ${status}`);
    if (status === 200 && answers.length === 1) return answers[0];
    const isAllowed = session.mayBeGone() && (status === 404 || answers.length === 0);
    if (isAllowed) return undefined;
    throw new SequenceFault(`${words}: ${status} ${JSON.stringify(messages).slice(0, 500)}`);
  }

  async call(tool: string, input: object, known?: SessionModel): Promise<ToolReply | undefined> {
    const session = known ?? (await this.session());
    const id = this.nextId();
    const sent = this.begin(session, id, `${tool} ${JSON.stringify(input).slice(0, 100)}`);
    const made = await this.send(session, { body: this.toolBody(id, tool, input) });
    await made.over;
    return toToolReply(this.answerTo(sent, made));
  }

  /** Without a session; undefined for a call whose host left first. @throws SequenceFault */
  async callNewer(name: string, input: object, signal?: AbortSignal) {
    const _meta = { ...NEWER_META, progressToken: PROGRESS_TOKEN };
    const params = { name, arguments: input, _meta };
    const body = { jsonrpc: "2.0", id: NEWER_ID, method: "tools/call", params };
    const headers = { "mcp-method": "tools/call", "mcp-name": name };
    const made = await this.send(undefined, { body, headers, revision: NEWER_REVISION, signal });
    await made.over;
    const { status, messages } = made;
    const answers = answersTo(messages, NEWER_ID);
    this.note(`${name} without a session -> ${status} ${JSON.stringify(answers)}`);
    if (signal?.aborted === true && answers.length === 0) return undefined;
    if (status === 200 && answers.length === 1) return toToolReply(answers[0]);
    throw new SequenceFault(`${name}: ${status} ${JSON.stringify(messages).slice(0, 500)}`);
  }

  /** @throws SequenceFault unless it came about, or its sandbox may be gone. */
  require(sandbox: SandboxModel, reply: ToolReply | undefined): ToolReply | undefined {
    if (reply?.isError !== true) return reply;
    if (sandbox.mayBeGone()) return undefined;
    throw new SequenceFault(`in ${sandbox.id}: ${reply.text.slice(0, 300)}`);
  }

  requireTag(sandbox: SandboxModel, tag: string, reply: ToolReply | undefined): void {
    if (reply === undefined) return;
    if (reply.text.includes(tag)) sandbox.logged.push(tag);
    else if (!sandbox.mayBeGone())
      throw new SequenceFault(`${tag} is missing: ${reply.text.slice(0, 300)}`);
  }
}

export function answersTo(messages: readonly Message[], id: string): Answer[] {
  return messages
    .filter((message) => message["id"] === id)
    .map((message) => answerSchema.parse(message));
}

/** @throws SequenceFault for an error of the protocol. */
export function toToolReply(answer: Answer | undefined): ToolReply | undefined {
  if (answer === undefined) return undefined;
  if (answer.result !== undefined) return toReply(answer.result);
  throw new SequenceFault(JSON.stringify(answer));
}
