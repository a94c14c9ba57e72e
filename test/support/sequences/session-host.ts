/**
 * A host of MCP over HTTP that opens, uses, cuts and ends sessions at random beside others with the same
 * key, and compares each answer with what it may be. Its choices follow from its seed alone.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { ActRandom } from "./act-random.ts";
import type { Message } from "./mcp-exchange.ts";
import {
  answersTo,
  SANDBOXES,
  SessionCaller,
  SLOTS,
  toToolReply,
  type Sent,
  type SessionWorld,
} from "./session-caller.ts";
import { SHARED, type SandboxModel } from "./session-model.ts";
import { SequenceFault } from "./world.ts";

const MAX_WAIT_MS = 400;

export class SessionHost {
  readonly #world: SessionWorld;
  readonly #random: ActRandom;
  readonly #caller: SessionCaller;

  constructor(world: SessionWorld, random: ActRandom, name: string) {
    this.#world = world;
    this.#random = random;
    this.#caller = new SessionCaller(world, random, name);
  }

  async run(): Promise<void> {
    while (this.#world.calls < this.#world.maxCalls) {
      this.#random.nextAct();
      await this.#random.pick(this.#acts)();
    }
  }

  readonly #acts = [
    () => this.#write(),
    () => this.#read(),
    () => this.#read(),
    () => this.#runProgram(),
    () => this.#runProgram(),
    () => this.#readLog(),
    () => this.#cancelAndRepeat(),
    () => this.#cancelAndRepeat(),
    () => this.#cutAndResume(),
    () => this.#cutAndResume(),
    () => this.#sendTwice(),
    () => this.#sendBatch(),
    () => this.#endSession(),
    () => this.#useForeignKey(),
    () => this.#listen(),
    () => this.#callNewer(),
    () => this.#callNewer(),
    () => this.#endSandbox(),
  ];

  async #write(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const content = this.#caller.nextId();
    const change = sandbox.shared.begin(content);
    const input = { sandbox_id: sandbox.id, path: SHARED, content };
    const reply = this.#caller.require(sandbox, await this.#caller.call("write_file", input));
    // Without an answer the call may go on for a while.
    if (reply !== undefined) change.done();
  }

  async #read(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const beganAt = this.#world.moments.next();
    const input = { sandbox_id: sandbox.id, path: SHARED };
    const reply = await this.#caller.call("read_file", input);
    const isMissing = reply?.isError === true && /path '[^']*' does not exist/.test(reply.text);
    const fitting = isMissing ? reply : this.#caller.require(sandbox, reply);
    if (fitting === undefined) return;
    const possible = [...sandbox.shared.possible(beganAt)];
    const isRight = possible.some((content) =>
      content === undefined ? isMissing : new RegExp(`\\b${content}\\b`).test(fitting.text),
    );
    if (!isRight)
      throw new SequenceFault(`${SHARED} is ${fitting.text}, not ${possible.join(" or ")}`);
  }

  async #runProgram(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const tag = `tag-${this.#caller.nextId()}-`;
    const input = programOf(sandbox, tag, this.#random.below(MAX_WAIT_MS));
    const reply = this.#caller.require(sandbox, await this.#caller.call("run_process", input));
    this.#caller.requireTag(sandbox, tag, reply);
  }

  /** The log is one for all sessions, and outlives its sandbox. */
  async #readLog(): Promise<void> {
    const sandbox = this.#world.sandboxes[this.#random.below(SANDBOXES)];
    const session = await this.#caller.session();
    const tags = sandbox?.logged.slice(-3) ?? [];
    if (sandbox === undefined || tags.length === 0) return;
    const id = this.#caller.nextId();
    const sent = this.#caller.begin(session, id, `read log of ${sandbox.id}`);
    const params = { uri: `sandbox:///${sandbox.id}/log` };
    const body = { jsonrpc: "2.0", id, method: "resources/read", params };
    const made = await this.#caller.send(session, { body });
    await made.over;
    const answer = this.#caller.answerTo(sent, made);
    if (answer === undefined) return;
    const missing = tags.filter((tag) => !JSON.stringify(answer).includes(tag));
    if (missing.length > 0)
      throw new SequenceFault(`the log of ${sandbox.id} lacks ${missing.join(" ")}`);
  }

  /** A cancelled call frees its id at once; a call that was over before has its answer. */
  async #cancelAndRepeat(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const session = await this.#caller.session();
    const waitMs = this.#random.below(MAX_WAIT_MS);
    const id = this.#caller.nextId();
    const first = this.#caller.toolBody(
      id,
      "run_process",
      programOf(sandbox, `first-${id}-`, waitMs),
    );
    const sent = this.#caller.begin(session, id, "cancelled");
    const made = await this.#caller.send(session, { body: first });
    await delay(this.#random.below(MAX_WAIT_MS));
    const params = { requestId: id, reason: "changed my mind" };
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params };
    const cancelled = await this.#caller.send(session, { body: cancel });
    await made.over;
    if (!session.mayBeGone() && cancelled.status !== 202)
      throw new SequenceFault(`cancel of ${id}: ${cancelled.status}`);
    if (answersTo(made.messages, id).length > 1)
      throw new SequenceFault(`two answers: ${JSON.stringify(made.messages)}`);
    this.#caller.note(`${sent.words} ${id} -> ${made.status} ${JSON.stringify(made.messages)}`);
    const tag = `tag-${id}-`;
    const second = this.#caller.toolBody(id, "run_process", programOf(sandbox, tag, waitMs));
    const again = this.#caller.begin(session, id, "repeated");
    const repeated = await this.#caller.send(session, { body: second });
    await repeated.over;
    const reply = toToolReply(this.#caller.answerTo(again, repeated));
    this.#caller.requireTag(sandbox, tag, this.#caller.require(sandbox, reply));
  }

  /** A call goes on when its connection breaks, and its answer is sent again. */
  async #cutAndResume(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const session = await this.#caller.session("2025-11-25");
    const [waitMs, cutMs, pauseMs] = [0, 0, 0].map(() => this.#random.below(MAX_WAIT_MS));
    if (session.revision !== "2025-11-25") return;
    const id = this.#caller.nextId();
    const tag = `tag-${id}-`;
    const cut = new AbortController();
    const body = this.#caller.toolBody(id, "run_process", programOf(sandbox, tag, waitMs ?? 0));
    const sent = this.#caller.begin(session, id, "cut");
    const made = await this.#caller.send(session, { body, signal: cut.signal });
    if (made.status !== 200) return void this.#caller.answerTo(sent, made);
    await delay(cutMs);
    cut.abort();
    await made.over;
    const lastEventId = made.lastEventId();
    // The head may be there before the first event is.
    if (lastEventId === undefined || answersTo(made.messages, id).length > 0) return;
    await delay(pauseMs);
    await this.#resume({ sent, lastEventId, sandbox, tag });
  }

  async #resume(cut: {
    readonly sent: Sent;
    readonly lastEventId: string;
    readonly sandbox: SandboxModel;
    readonly tag: string;
  }): Promise<void> {
    const { sent, lastEventId, sandbox, tag } = cut;
    const { session, id } = sent;
    const enough = new AbortController();
    const onMessage = (message: Message) => {
      if (message["id"] === id) enough.abort();
    };
    const { signal } = enough;
    const resumed = await this.#caller.send(session, {
      method: "GET",
      lastEventId,
      signal,
      onMessage,
    });
    await resumed.over;
    const answer = this.#caller.answerTo(
      { ...sent, words: `resumed from ${lastEventId}` },
      resumed,
    );
    this.#caller.requireTag(sandbox, tag, this.#caller.require(sandbox, toToolReply(answer)));
  }

  /** The same id while the first has no answer is refused, and the first is answered. */
  async #sendTwice(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const session = await this.#caller.session();
    const id = this.#caller.nextId();
    const tag = `tag-${id}-`;
    const body = this.#caller.toolBody(id, "run_process", programOf(sandbox, tag, MAX_WAIT_MS));
    const sent = this.#caller.begin(session, id, "twice");
    const first = await this.#caller.send(session, { body });
    const second = await this.#caller.send(session, { body });
    await Promise.all([first.over, second.over]);
    const isOver = first.messages.length > 0 && second.status === 200;
    if (!session.mayBeGone() && !sandbox.mayBeGone() && second.status !== 400 && !isOver)
      throw new SequenceFault(`${id} was taken twice: ${second.status}`);
    const reply = toToolReply(this.#caller.answerTo(sent, first));
    this.#caller.requireTag(sandbox, tag, this.#caller.require(sandbox, reply));
  }

  /** Each call of a batch is answered, one that another message cancels too. */
  async #sendBatch(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const session = await this.#caller.session("2025-03-26");
    const waitMs = this.#random.below(MAX_WAIT_MS);
    const cancels = this.#random.once(2);
    if (session.revision !== "2025-03-26") return;
    const ids = [this.#caller.nextId(), this.#caller.nextId(), this.#caller.nextId()] as const;
    const [first, second, third] = ids;
    const params = { requestId: first };
    const body = [
      this.#caller.toolBody(first, "run_process", programOf(sandbox, `tag-${first}-`, waitMs)),
      { jsonrpc: "2.0", id: second, method: "ping" },
      ...(cancels ? [{ jsonrpc: "2.0", method: "notifications/cancelled", params }] : []),
      this.#caller.toolBody(third, "list_sandboxes", {}),
    ];
    const sent = ids.map((id) => this.#caller.begin(session, id, "in a batch"));
    const made = await this.#caller.send(session, { body });
    await made.over;
    for (const one of sent) this.#caller.answerTo(one, made);
  }

  async #endSession(): Promise<void> {
    const slot = this.#random.below(SLOTS);
    const session = this.#world.sessions[slot];
    if (!this.#random.once(2) || session === undefined) return;
    session.ends += 1;
    const ended = await this.#caller.send(session, { method: "DELETE" });
    await ended.over;
    this.#caller.note(`ends ${session.id} -> ${ended.status}`);
    if (![200, 404].includes(ended.status))
      throw new SequenceFault(`end of ${session.id}: ${ended.status}`);
    session.goneAt = Math.min(session.goneAt, this.#world.moments.next());
  }

  /** For another team there is no such session, and nothing happens to it. */
  async #useForeignKey(): Promise<void> {
    const session = await this.#caller.session();
    const method = this.#random.pick(["POST", "GET", "DELETE"] as const);
    const ping = { jsonrpc: "2.0", id: this.#caller.nextId(), method: "ping" };
    const body = method === "POST" ? ping : undefined;
    const made = await this.#caller.send(session, { method, body, key: this.#world.otherKey });
    await made.over;
    if (made.status !== 404) throw new SequenceFault(`another team: ${method} ${made.status}`);
  }

  /** Who subscribed to a log learns that it changed. */
  async #listen(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const session = await this.#caller.session();
    const uri = `sandbox:///${sandbox.id}/log`;
    const left = new AbortController();
    const told = Promise.withResolvers<void>();
    const onMessage = ({ method, params }: Message) => {
      const isOfLog = JSON.stringify(params ?? {}).includes(uri);
      if (method === "notifications/resources/updated" && isOfLog) told.resolve();
    };
    const stream = await this.#caller.send(session, {
      method: "GET",
      signal: left.signal,
      onMessage,
    });
    if (stream.status !== 200) {
      await stream.over;
      // Another host may have the one stream of the session.
      if (stream.status === 409 || session.mayBeGone()) return;
      throw new SequenceFault(`stream of ${session.id}: ${stream.status}`);
    }
    try {
      const id = this.#caller.nextId();
      const sent = this.#caller.begin(session, id, `subscribe ${uri}`);
      const body = { jsonrpc: "2.0", id, method: "resources/subscribe", params: { uri } };
      const subscribed = await this.#caller.send(session, { body });
      await subscribed.over;
      if (this.#caller.answerTo(sent, subscribed)?.result === undefined) return;
      const input = programOf(sandbox, `tag-${id}-`, 0);
      const reply = this.#caller.require(sandbox, await this.#caller.call("run_process", input));
      if (reply === undefined) return;
      const limit = delay(5_000, undefined, { ref: false }).then(() => "late");
      const end = await Promise.race([told.promise, stream.over.then(() => "over"), limit]);
      if (end !== undefined && !session.mayBeGone() && !sandbox.mayBeGone())
        throw new SequenceFault(`${session.id} does not learn of ${uri}: ${end}`);
    } finally {
      left.abort();
      await stream.over;
    }
  }

  /** Calls without a session are apart from each other, though all have the same id at once. */
  async #callNewer(): Promise<void> {
    const sandbox = await this.#caller.sandbox();
    const [waitMs, cutMs] = [this.#random.below(MAX_WAIT_MS), this.#random.below(MAX_WAIT_MS)];
    const id = this.#caller.nextId();
    if (this.#random.once(2)) {
      const first = programOf(sandbox, `first-${id}-`, waitMs);
      await this.#caller.callNewer("run_process", first, AbortSignal.timeout(cutMs));
    }
    const tag = `tag-${id}-`;
    const input = programOf(sandbox, tag, waitMs);
    const reply = await this.#caller.callNewer("run_process", input);
    this.#caller.requireTag(sandbox, tag, this.#caller.require(sandbox, reply));
  }

  async #endSandbox(): Promise<void> {
    const sandbox = this.#world.sandboxes[this.#random.below(SANDBOXES)];
    if (!this.#random.once(4) || sandbox === undefined) return;
    sandbox.ends += 1;
    const reply = await this.#caller.call("kill_sandbox", { sandbox_id: sandbox.id });
    // A call that was cut off goes on.
    if (reply !== undefined) sandbox.goneAt = Math.min(sandbox.goneAt, this.#world.moments.next());
  }
}

function programOf({ id }: SandboxModel, tag: string, waitMs: number) {
  const command = `sleep ${waitMs / 1_000}; echo ${tag}`;
  return { sandbox_id: id, cmd: "sh", args: ["-c", command], wait_seconds: 20 };
}
