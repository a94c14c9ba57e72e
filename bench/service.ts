/** A running `serve` spoken to by plain HTTP, as any client of its wire does. */

import { encodeEnvelope } from "../src/rpc/envelope.ts";
import { readEnvelopes } from "../test/support/raw-call.ts";
import { startServe, type ServeOrigin } from "../test/support/serve.ts";

export interface BenchService extends AsyncDisposable {
  readonly pid: number;
  readonly url: string;
  readonly apiKey: string;
  /** The id of a new sandbox. */
  create(template?: string, more?: object): Promise<string>;
  kill(sandbox: string): Promise<void>;
  /** A control call that must succeed; its parsed reply. */
  call(method: "GET" | "POST" | "DELETE", path: string, body?: object): Promise<unknown>;
  /** Sends a body to a port of a sandbox; the text of a reply that must be 200. */
  send(target: { sandbox: string; port: number; path: string }, body?: string): Promise<string>;
  /** Runs a program as root in a sandbox to its end; its standard output. */
  run(sandbox: string, command: readonly [string, ...string[]]): Promise<string>;
}

/** Starts `serve`, by default in a home of its own. */
export async function startService(
  flags: readonly string[],
  origin: Pick<ServeOrigin, "home"> = {},
): Promise<BenchService> {
  const serve = await startServe(["--log-level", "warn", ...flags], origin);
  const headers = { "x-api-key": serve.apiKey, "content-type": "application/json" };
  const tokens = new Map<string, string>();
  const call: BenchService["call"] = async (method, path, body) => {
    const reply = await fetch(`${serve.url}${path}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  };
  return {
    pid: serve.program.child.pid ?? 0,
    url: serve.url,
    apiKey: serve.apiKey,
    call,
    async create(templateID = "base", more = {}) {
      const made = await call("POST", "/v2/sandboxes", { templateID, timeout: 3_600, ...more });
      const id = textOf(made, "sandboxID");
      tokens.set(id, textOf(made, "envdAccessToken"));
      return id;
    },
    async kill(sandbox) {
      await call("DELETE", `/sandboxes/${sandbox}`);
    },
    async send({ sandbox, port, path }, body) {
      const reply = await fetch(`${serve.url}${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          "content-type": "application/json",
          "x-access-token": tokens.get(sandbox) ?? "",
          "e2b-sandbox-id": sandbox,
          "e2b-sandbox-port": String(port),
        },
        ...(body !== undefined && { body }),
      });
      const text = await reply.text();
      if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${text.slice(0, 200)}`);
      return text;
    },
    run: async (sandbox, command) => {
      const token = tokens.get(sandbox) ?? "";
      return runInside({ url: serve.url, sandbox, token }, command);
    },
    async [Symbol.asyncDispose]() {
      try {
        await killAll(call);
      } finally {
        await serve[Symbol.asyncDispose]();
      }
    },
  };
}

/** Also what a part that failed left: it would outlive its service. */
async function killAll(call: BenchService["call"]): Promise<void> {
  for (;;) {
    const listed = await call("GET", "/v2/sandboxes?limit=100");
    const ids = Array.isArray(listed) ? listed.map((one) => textOf(one, "sandboxID")) : [];
    if (ids.length === 0) return;
    await Promise.all(ids.map((id) => call("DELETE", `/sandboxes/${id}`)));
  }
}

/** A field of a reply that must be a text. */
export function textOf(reply: unknown, name: string): string {
  const value: unknown =
    typeof reply === "object" && reply !== null ? Reflect.get(reply, name) : undefined;
  if (typeof value !== "string") throw new Error(`the reply has no ${name}`);
  return value;
}

interface Target {
  readonly url: string;
  readonly sandbox: string;
  readonly token: string;
}

async function runInside(
  { url, sandbox, token }: Target,
  [cmd, ...args]: readonly [string, ...string[]],
): Promise<string> {
  const reply = await fetch(`${url}/process.Process/Start`, {
    method: "POST",
    body: encodeEnvelope(JSON.stringify({ process: { cmd, args } })),
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      authorization: `Basic ${Buffer.from("root:").toString("base64")}`,
      "x-access-token": token,
      "e2b-sandbox-id": sandbox,
      "e2b-sandbox-port": "49983",
    },
  });
  const bytes = Buffer.from(await reply.arrayBuffer());
  const output: string[] = [];
  let hasEnded = false;
  for (const { json } of readEnvelopes(bytes)) {
    const text = JSON.stringify(json);
    const part = /"stdout":"([^"]*)"/.exec(text)?.[1];
    if (part !== undefined) output.push(Buffer.from(part, "base64").toString("utf8"));
    hasEnded ||= text.includes('"end":') && text.includes('"exited":true');
  }
  if (!hasEnded) throw new Error(`${cmd} did not end: ${reply.status}`);
  return output.join("");
}
