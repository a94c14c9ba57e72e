/** A client in another language: its driver, asked by JSON lines, several operations at once. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { z } from "../../src/common/schema.ts";
import { withoutMark } from "../support/marks.ts";

const REPLY_LIMIT_MS = 180_000;
const EXIT_LIMIT_MS = 30_000;
/** The last lines of what a driver wrote, for the report of a failure. */
const MAX_ERROR_CHARACTERS = 2_000;

const lineSchema = z.object({
  id: z.number(),
  result: z.unknown().optional(),
  error: z.string().optional(),
  cancelled: z.boolean().optional(),
});

const replySchema = z.object({
  isError: z.boolean(),
  text: z.string(),
  images: z.array(z.object({ mimeType: z.string(), data: z.string() })),
  kinds: z.array(z.string()),
  fields: z.record(z.string(), z.unknown()),
  progress: z.array(z.string()),
  /** Of LangChain: the size of what each provider would be sent. */
  formatted: z.record(z.string(), z.number()).optional(),
});

export type ForeignReply = z.infer<typeof replySchema>;

export interface PendingCall {
  /** Rejects with what the client reports; `undefined` for a call that was cancelled. */
  readonly reply: Promise<ForeignReply | undefined>;
  cancel(): void;
}

export interface ForeignClient extends AsyncDisposable {
  readonly protocol: string;
  tools(): Promise<readonly { readonly name: string; readonly inputSchema?: unknown }[]>;
  call(tool: string, input: object): Promise<ForeignReply>;
  start(tool: string, input: object): PendingCall;
  resources(): Promise<readonly string[]>;
  read(uri: string): Promise<string>;
}

/** Where the server is, as every driver is told. */
export type Target =
  | {
      readonly transport: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
  | {
      readonly transport: "http";
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
    };

/** Starts a driver and waits until it is connected. */
export async function startForeignClient(
  [program, ...words]: readonly string[],
  folder: string,
): Promise<ForeignClient> {
  const child = spawn(program ?? "", words, { cwd: folder, stdio: ["pipe", "pipe", "pipe"] });
  const waiting = new Map<number, PromiseWithResolvers<z.infer<typeof lineSchema>>>();
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-MAX_ERROR_CHARACTERS);
  });
  const exited = once(child, "exit");
  child.once("exit", (code, signal) => {
    for (const { reject } of waiting.values()) {
      reject(new Error(`the driver ended with ${code ?? signal}: ${errors}`));
    }
  });
  child.stdin.on("error", () => undefined);
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => {
    const message = lineSchema.parse(JSON.parse(line));
    waiting.get(message.id)?.resolve(message);
    waiting.delete(message.id);
  });
  let count = 0;

  function expectReply(id: number) {
    const reply = Promise.withResolvers<z.infer<typeof lineSchema>>();
    waiting.set(id, reply);
    const limit = setTimeout(
      () => reply.reject(new Error(`no reply in ${REPLY_LIMIT_MS} ms: ${errors}`)),
      REPLY_LIMIT_MS,
    );
    return reply.promise.finally(() => clearTimeout(limit));
  }

  function send(request: object): void {
    child.stdin.write(`${JSON.stringify(request)}\n`);
  }

  function ask(operation: object) {
    count += 1;
    const id = count;
    const reply = expectReply(id).then((message) => {
      if (message.error !== undefined) throw new Error(message.error);
      return message;
    });
    send({ id, ...operation });
    return { id, reply };
  }

  const start = (tool: string, input: object): PendingCall => {
    const { id, reply } = ask({ op: "call", tool, input });
    return {
      reply: reply.then((message) => {
        if (message.cancelled === true) return undefined;
        const parsed = replySchema.parse(message.result);
        return { ...parsed, text: withoutMark(parsed.text) };
      }),
      cancel: () => send({ id: 0, op: "cancel", target: id }),
    };
  };

  const ready = await expectReply(0);
  return {
    protocol: String(ready.result),
    async tools() {
      const { result } = await ask({ op: "tools" }).reply;
      return z.array(z.looseObject({ name: z.string() })).parse(result);
    },
    async call(tool, input) {
      const reply = await start(tool, input).reply;
      if (reply === undefined) throw new Error(`${tool} was cancelled`);
      return reply;
    },
    start,
    async resources() {
      return z.array(z.string()).parse((await ask({ op: "resources" }).reply).result);
    },
    async read(uri) {
      return z.string().parse((await ask({ op: "read", uri }).reply).result);
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      const limit = setTimeout(() => child.kill("SIGKILL"), EXIT_LIMIT_MS);
      await exited;
      clearTimeout(limit);
    },
  };
}
