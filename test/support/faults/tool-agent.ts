/**
 * A host that calls tools at random, on stdio and HTTP, and compares every reply with a model: what files
 * may hold, what programs write, what a watch must tell. Its calls and sessions are cut off at times.
 */

import { setTimeout as delay } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startMcpClient } from "../mcp/mcp-client.ts";
import { toReply, type ToolReply } from "../mcp/tool-reply.ts";
import type { Random } from "../random.ts";
import { countingCommand, EXIT_CODE, ReadOutput } from "./counting-output.ts";
import type { FaultHome } from "./fault-home.ts";
import { FileModel } from "./file-model.ts";

/** A host of HTTP does not notice a server that was killed. */
const HTTP_LIMIT_MS = 30_000;
export const POLL_MS = 20;
/** What no order of calls allows. */
class ToolFault extends Error {}
const FOLDER = "/home/user/work";
const SIZES = [3, 5_000, 200_000];

type Call = (tool: string, input: object, signal?: AbortSignal) => Promise<ToolReply>;
interface Session {
  readonly call: Call;
  /** Breaks it off, as a host that is killed does. */
  cut(): void;
  close(): Promise<void>;
}

/** What agents share. */
export interface ToolWorld {
  readonly home: FaultHome;
  readonly done: string[];
  readonly random: Random;
  /** No call begins after so many. */
  readonly maxCalls: number;
  calls: number;
  isUp: boolean;
  /** A server of stdio that starts without a service has one of its own. */
  opening: number;
}

async function openStdio({ home }: ToolWorld): Promise<Session> {
  const client = await startMcpClient(["--home", home.path, "--toolsets", "all"]);
  return {
    call: (tool, input, signal) => client.call(tool, { ...input }, signal && { signal }),
    cut: () => process.kill(client.pid, "SIGKILL"),
    close: async () => client[Symbol.asyncDispose](),
  };
}

async function openHttp({ home }: ToolWorld): Promise<Session> {
  const { apiKey, apiUrl } = home.client();
  const requestInit = { headers: { authorization: `Bearer ${apiKey}` } };
  const client = new Client({ name: "test-host", version: "1.0.0" });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${apiUrl}/mcp`), { requestInit }),
  );
  const close = async () => client.close();
  return {
    async call(name, input, signal) {
      const options = { timeout: HTTP_LIMIT_MS, ...(signal && { signal }) };
      return toReply(await client.callTool({ name, arguments: { ...input } }, undefined, options));
    },
    cut: () => void close(),
    close,
  };
}

interface Program {
  readonly id: string;
  readonly tag: string;
  readonly count: number;
}

/** Undefined where nobody knows whether the call came about. */
type Answer = ToolReply | undefined;

const KINDS = [openStdio, openHttp];
/** Of a sandbox that lives, by a service that works. */
const IMPOSSIBLE = /^internal\b|^not_found: sandbox /;
const UNSURE = /^(?:unavailable|deadline_exceeded|canceled)\b/;

export class ToolAgent {
  readonly #world: ToolWorld;
  readonly #random: Random;
  readonly #sessions = new Map<(typeof KINDS)[number], Session>();
  readonly #files = new FileModel();
  readonly #programs: Program[] = [];
  readonly #watches = new Map<string, Set<string>>();
  #id = "";

  constructor(world: ToolWorld) {
    this.#world = world;
    this.#random = world.random;
  }

  async run(): Promise<void> {
    while (this.#id === "") {
      const made = await this.#call("create_sandbox", { timeout_seconds: 86_400 });
      this.#id = /sandbox_id: (\w+)/.exec(made?.text ?? "")?.[1] ?? "";
    }
    while (this.#world.calls < this.#world.maxCalls) {
      if (this.#random.once(40)) this.#cutSession();
      await this.#random.pick(this.#acts)();
    }
    await this.#act("connect_sandbox", {});
    for (const program of this.#programs) await this.#follow(program);
  }

  async close(): Promise<void> {
    for (const session of this.#sessions.values()) await session.close().catch(() => undefined);
  }

  readonly #acts = [
    () => this.#write(),
    () => this.#write(),
    () => this.#read(),
    () => this.#read(),
    () => this.#move(),
    () => this.#compose(),
    () => this.#start(),
    () => this.#follow(),
    () => this.#follow(),
    () => this.#watch(),
    () => this.#watch(),
    () => this.#act("pause_sandbox", {}),
    () => this.#act("connect_sandbox", {}),
    () => this.#act("connect_sandbox", {}),
  ];

  async #session(): Promise<Session> {
    const open = this.#random.pick(KINDS);
    for (;;) {
      const known = this.#sessions.get(open);
      if (known !== undefined) return known;
      while (!this.#world.isUp) await delay(POLL_MS);
      this.#world.opening += 1;
      try {
        const opened = await open(this.#world);
        await opened.call("list_sandboxes", {});
        this.#sessions.set(open, opened);
      } catch {
        await delay(POLL_MS);
      } finally {
        this.#world.opening -= 1;
      }
    }
  }

  #cutSession(): void {
    const [[open, session] = []] = this.#sessions;
    if (open === undefined || session === undefined) return;
    this.#sessions.delete(open);
    session.cut();
    void session.close().catch(() => undefined);
  }

  async #call(tool: string, input: object): Promise<Answer> {
    const session = await this.#session();
    const signal = this.#random.once(9)
      ? AbortSignal.timeout(1 + this.#random.below(300))
      : undefined;
    const words = `${tool} ${JSON.stringify(input).slice(0, 200)}`;
    this.#world.calls += 1;
    try {
      const reply = await session.call(tool, input, signal);
      this.#world.done.push(`${words} -> ${reply.text.slice(0, 300)}`);
      if (!reply.isError) return reply;
      if (IMPOSSIBLE.test(reply.text)) throw new ToolFault(`${words}: ${reply.text}`);
      return UNSURE.test(reply.text) ? undefined : reply;
    } catch (error) {
      if (error instanceof ToolFault) throw error;
      this.#world.done.push(`${words} -> ${String(error)}`);
      const [open] = [...this.#sessions].find(([, one]) => one === session) ?? [];
      if (signal?.aborted !== true && open !== undefined) this.#sessions.delete(open);
      return undefined;
    }
  }

  #act(tool: string, input: object): Promise<Answer> {
    return this.#call(tool, { sandbox_id: this.#id, ...input });
  }

  #path(): string {
    return `${FOLDER}/f${this.#random.below(3)}`;
  }

  async #write(): Promise<void> {
    const path = this.#path();
    const content = `${this.#world.calls}:${"x".repeat(this.#random.pick(SIZES))}`;
    const reply = await this.#act("write_file", { path, content });
    if (reply?.isError === true) return;
    this.#files.change(path, [content], reply !== undefined);
    if (reply === undefined) return;
    for (const names of this.#watches.values()) names.add(path.slice(FOLDER.length + 1));
  }

  async #read(): Promise<void> {
    const path = this.#path();
    const reply = await this.#act("read_file", { path, limit: 200_000 });
    if (reply === undefined || reply.text.startsWith("failed_precondition")) return;
    const possible = [...this.#files.at(path)];
    const isFound = possible.some((content) =>
      content === undefined
        ? reply.text.startsWith("not_found")
        : reply.text.includes(content.slice(0, 199_000)),
    );
    if (isFound) return;
    const expected = possible.map((content) => content?.slice(0, 20) ?? "nothing");
    throw new ToolFault(`${path}: ${reply.text.slice(0, 200)}, not ${expected.join(" or ")}`);
  }

  async #move(): Promise<void> {
    const [source, destination] = [this.#path(), this.#path()];
    if (source === destination) return;
    const moved = [...this.#files.at(source)].filter((content) => content !== undefined);
    const reply = await this.#act("move_path", { source, destination });
    if (reply?.isError === true) return;
    this.#files.change(destination, moved, reply !== undefined);
    this.#files.change(source, [undefined], reply !== undefined);
  }

  async #compose(): Promise<void> {
    const paths = [this.#path(), this.#path(), this.#path()] as const;
    if (new Set(paths).size < paths.length) return;
    const [first, second, destination] = paths;
    const joined = [...this.#files.at(first)].flatMap((head) =>
      [...this.#files.at(second)].flatMap((rest) =>
        head === undefined || rest === undefined ? [] : head + rest,
      ),
    );
    const reply = await this.#act("compose_files", { sources: [first, second], destination });
    if (reply?.isError === true) return;
    this.#files.change(destination, joined, reply !== undefined);
    for (const source of [first, second])
      this.#files.change(source, [undefined], reply !== undefined);
  }

  async #start(): Promise<void> {
    const program = { tag: `t${this.#world.calls}`, count: this.#random.pick([20, 200, 3_000]) };
    const cmd = countingCommand(program.tag, program.count);
    const reply = await this.#act("run_process", {
      cmd,
      wait_seconds: this.#random.pick([0, 0, 2]),
    });
    const id = /process_id: (p_\d+)/.exec(reply?.text ?? "")?.[1];
    if (id !== undefined) this.#programs.push({ ...program, id });
  }

  /** Reads all of the output from its beginning, in pages of any size and by any server. */
  async #follow(program = this.#programs.at(-1)): Promise<void> {
    if (program === undefined) return;
    const output = new ReadOutput();
    const max_bytes = this.#random.pick([1_000, 5_000, 200_000]);
    for (let cursor = 0; ;) {
      const input = {
        process_id: program.id,
        cursor,
        max_bytes,
        wait_seconds: this.#random.below(2),
      };
      const reply = await this.#act("get_process_output", input);
      if (reply === undefined || reply.isError) return;
      const [head = ""] = reply.text.split("\n", 1);
      cursor = Number(/next_cursor: (\d+)/.exec(head)?.[1]);
      output.add(reply.text);
      if (head.includes("bytes more")) continue;
      const code = /^exit_code: (\d+)/.exec(head)?.[1];
      const isEnded = code !== undefined;
      const isRight = !isEnded || code === String(EXIT_CODE);
      const fault = isRight ? output.findFault({ ...program, isEnded }) : "exit code";
      if (fault !== undefined) throw new ToolFault(`${program.id} ${fault}: ${head}`);
      return;
    }
  }

  async #watch(): Promise<void> {
    const [[id, names] = []] = this.#watches;
    if (id === undefined || names === undefined) {
      const reply = await this.#act("watch_path", { path: FOLDER, wait_seconds: 0 });
      const made = /watcher_id: ([\w-]+)/.exec(reply?.text ?? "")?.[1];
      if (made !== undefined) this.#watches.set(made, new Set());
      return;
    }
    const wanted = [...names];
    const reply = await this.#act("watch_path", { watcher_id: id, wait_seconds: 1 });
    if (reply === undefined || reply.text.startsWith("failed_precondition")) return;
    const isOver = reply.isError || /may be missing|nothing more|\d more:/.test(reply.text);
    if (isOver) this.#watches.delete(id);
    const missing = wanted.filter((name) => !new RegExp(` ${name}$`, "m").test(reply.text));
    if (!isOver && missing.length > 0)
      throw new ToolFault(`watch ${id} does not tell ${missing.join(" ")}: ${reply.text}`);
    names.clear();
  }
}
