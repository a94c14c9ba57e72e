/** The interpreter's server on this machine, with the kernels that need nothing but bash and node. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, resolve } from "node:path";
import { createInterface } from "node:readline";

const SERVER = resolve(import.meta.dirname, "../../../src/interpreter/server.py");

export interface InterpreterServer extends AsyncDisposable {
  readonly url: string;
  /** Of the supervisor, whose only child serves. */
  readonly pid: number;
  /** The lines of one cell. */
  run(code: string, options?: CellOptions): Promise<readonly CellLine[]>;
  /** A call of any route. */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }>;
}

export interface CellOptions {
  readonly language?: string;
  readonly context_id?: string;
  readonly env_vars?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export type CellLine = Readonly<Record<string, unknown>> & { readonly type: string };

export async function startInterpreterServer(): Promise<InterpreterServer> {
  const { USER: user = "root", ...environment } = process.env;
  const child = spawn("python3", ["-B", SERVER], {
    env: {
      ...environment,
      PATH: `${dirname(process.execPath)}:${environment["PATH"] ?? ""}`,
      INTERPRETER_PORT: "0",
      INTERPRETER_USER: user,
      INTERPRETER_LANGUAGES: "javascript",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let url = "";
  const lines = createInterface(child.stdout);
  // Each new server says so.
  lines.on("line", (line) => {
    const port = /port ([0-9]+)/.exec(line)?.[1];
    if (port !== undefined) url = `http://127.0.0.1:${port}`;
  });
  await once(lines, "line");

  async function send(
    [method, path]: readonly [string, string],
    body?: unknown,
    signal?: AbortSignal,
  ) {
    return fetch(`${url}${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  }

  return {
    get url() {
      return url;
    },
    pid: child.pid ?? 0,
    async run(code, { signal, ...options } = {}) {
      const reply = await send(["POST", "/execute"], { code, ...options }, signal);
      const text = await reply.text();
      if (reply.status !== 200) throw new Error(`${reply.status} ${text}`);
      return text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    },
    async call(method, path, body) {
      const reply = await send([method, path], body);
      return { status: reply.status, text: await reply.text() };
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

/** The text of a stream of a cell, or what else its lines have under a name. */
export function textOf(lines: readonly CellLine[], type: string): string {
  return lines
    .filter((line) => line.type === type)
    .map(({ text, value }) =>
      typeof text === "string" ? text : typeof value === "string" ? value : "",
    )
    .join("");
}
