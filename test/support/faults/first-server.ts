/** One server of a first run: `stdio` or `serve`, asked for sandboxes, killed or ended. */

import { once } from "node:events";
import { createInterface } from "node:readline";
import { openRawStdio } from "../mcp/raw-stdio.ts";
import { startProgram, type TestProgram } from "../program.ts";
import { environmentOf, type Installed, type Person } from "./first-run.ts";
import { PLAN_VARIABLE } from "./step-listener.ts";

export const SERVER_KINDS = ["stdio", "serve"] as const;
export type ServerKind = (typeof SERVER_KINDS)[number];

/** A machine with many busy loops beside many servers is slow. */
const REPLY_LIMIT_MS = 170_000;

export interface FirstServer {
  readonly program: TestProgram;
  /** Resolves once it can be asked; rejects when it ends before that. */
  ready(): Promise<void>;
  /** Makes a sandbox and sees that it works; rejects with what was said instead. */
  create(): Promise<void>;
  /** Ends it as its host would; a killed one is gone already. */
  end(): Promise<void>;
}

export interface ServerOptions {
  readonly installed: Installed;
  readonly person: Person;
  readonly kind: ServerKind;
  /** File that says at which step it is to be killed. */
  readonly planPath?: string | undefined;
  /** Keys that a `serve` of this home has shown, the newest last. */
  readonly keys: string[];
}

/** Starts it. */
export function startFirstServer(options: ServerOptions): FirstServer {
  const { installed, person, kind, planPath } = options;
  const listening = { NODE_OPTIONS: `--import=${installed.listener}` };
  const environment = {
    ...environmentOf(person),
    ...(planPath !== undefined && { ...listening, [PLAN_VARIABLE]: planPath }),
  };
  const isRoot = person.name === "root";
  const serving = ["serve", "--port", "0", ...(isRoot ? ["--allow-host-template"] : [])];
  const words = kind === "stdio" ? ["stdio"] : serving;
  const program = startProgram(words, environment, [...person.command, installed.program]);
  return kind === "stdio" ? stdioServer(program) : httpServer(program, options.keys);
}

/** Rejects when the program ends: nobody will answer any more. */
async function orEnded<T>(program: TestProgram, work: Promise<T>): Promise<T> {
  const { child } = program;
  const over = new AbortController();
  const signal = over.signal;
  const ended = async (): Promise<never> => {
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit", { signal });
    throw new Error(`ended with ${child.exitCode ?? child.signalCode}: ${program.stderr()}`);
  };
  try {
    return await Promise.race([work, ended()]);
  } finally {
    over.abort();
  }
}

function stdioServer(program: TestProgram): FirstServer {
  // Who writes to a killed server hears of it by its end.
  program.child.stdin?.on("error", () => undefined);
  const raw = openRawStdio(program.child.stdin!, program.stdout, REPLY_LIMIT_MS);
  const call = async (name: string, input: object): Promise<string> => {
    const request = raw.request("tools/call", { name, arguments: input });
    request.catch(() => undefined);
    const reply = await orEnded(program, request);
    const text = JSON.stringify(reply);
    if (reply["isError"] === true) throw new Error(`${name}: ${text}\n${program.stderr()}`);
    return text;
  };
  return {
    program,
    ready: async () => orEnded(program, raw.initialize()),
    async create() {
      const made = await call("create_sandbox", {});
      const sandboxId = /sandbox_id: (\w+)/.exec(made)?.[1] ?? "";
      const said = await call("run_process", {
        sandbox_id: sandboxId,
        cmd: "id -un; ls /usr/bin/env",
      });
      if (!/\\nuser\\n\/usr\/bin\/env\\n/.test(said)) throw new Error(`run_process: ${said}`);
    },
    async end() {
      program.child.stdin?.end();
      await program.exited();
    },
  };
}

function httpServer(program: TestProgram, keys: string[]): FirstServer {
  let url = "";
  return {
    program,
    async ready() {
      const lines = createInterface({ input: program.stdout });
      const listening = async (): Promise<void> => {
        for await (const line of lines) {
          url = /^listening on (http\S+)$/.exec(line)?.[1] ?? "";
          if (url !== "") return;
        }
        throw new Error(`serve ended with ${await program.exited()}: ${program.stderr()}`);
      };
      await orEnded(program, listening());
      const shown = /shown once: (\S+)/.exec(program.stderr())?.[1];
      if (shown !== undefined) keys.push(shown);
    },
    async create() {
      const headers = { "x-api-key": keys.at(-1) ?? "", "content-type": "application/json" };
      const signal = AbortSignal.timeout(REPLY_LIMIT_MS);
      const body = JSON.stringify({ templateID: "base", timeout: 600 });
      const request = fetch(`${url}/sandboxes`, { method: "POST", headers, body, signal });
      request.catch(() => undefined);
      const reply = await orEnded(program, request);
      const text = await reply.text();
      if (reply.status !== 201) throw new Error(`${reply.status} ${text}\n${program.stderr()}`);
    },
    async end() {
      program.child.kill("SIGTERM");
      await program.exited();
    },
  };
}
