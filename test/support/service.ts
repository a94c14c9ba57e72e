/** A whole service on the `bare` engine, in a home of its own, spoken to over its private door. */

import { mkdtemp, mkdir, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { Agent, request } from "undici";
import {
  startEmbeddedService,
  type EmbeddedService,
  type EmbeddedServiceOptions,
} from "../../src/commands/service/embedded-service.ts";
import type { Clock } from "../../src/common/clock.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { sandboxSchema, type SandboxBody } from "../../src/wire/control.ts";
import { createBareEngine } from "./engine/bare-engine.ts";
import { PERL_DIRECTORY } from "./perl-directory.ts";

const DAEMON = resolve(import.meta.dirname, "../../dist/envd.cjs");

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The parsed body of a JSON reply; undefined for any other. */
  readonly body: unknown;
}

export interface Call {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface TestService extends AsyncDisposable {
  readonly embedded: EmbeddedService;
  readonly home: string;
  /** The way to the private door. */
  readonly dispatcher: Agent;
  /** A sandbox of the second generation, which must come about. */
  create(body?: Readonly<Record<string, unknown>>): Promise<SandboxBody>;
  /** A call with the key of the private door. */
  call(call: Call): Promise<Reply>;
  /** A call to a port of a sandbox, without the key. */
  enter(
    sandbox: { readonly sandboxID: string; readonly port?: number },
    call: Call,
  ): Promise<Reply>;
}

/** Starts a service; what the test does not say is small and local. */
export async function startTestService(
  options: Partial<EmbeddedServiceOptions> & { readonly clock?: Clock } = {},
): Promise<TestService> {
  await using stack = new AsyncDisposableStack();
  const home = options.home ?? (await mkdtemp(join(tmpdir(), "smcp-svc-")));
  if (options.home === undefined) stack.defer(() => rm(home, { recursive: true, force: true }));
  const work = join(home, "work");
  await mkdir(work, { recursive: true });
  const { username } = userInfo();
  // Login shells read no files of this machine's user.
  const setup = { environment: { HOME: work }, startCommand: "", readyCommand: "" };
  const builtIn = { setup, defaultUser: username, defaultWorkdir: work, find: async () => [] };
  const embedded = stack.use(
    await startEmbeddedService({
      home,
      instance: undefined,
      engine: createBareEngine({
        command: [process.execPath, DAEMON],
        perlDirectory: PERL_DIRECTORY,
      }),
      limits: { memoryMb: 512, cpus: 2, diskMb: 2048, pids: 512 },
      maxSandboxes: 10,
      poolSize: 0,
      builtIns: [{ name: "base", ...builtIn }],
      allowHostTemplate: false,
      domain: "sandbox.localhost",
      tcp: [],
      apiKeys: [],
      onExit: "kill",
      log: createSilentLog(),
      ...options,
    }),
  );
  const dispatcher = new Agent({ connect: { socketPath: embedded.socketPath } });
  stack.defer(() => dispatcher.destroy());

  async function send({ method = "GET", path, body, headers = {} }: Call): Promise<Reply> {
    const reply = await request(`http://localhost${path}`, {
      dispatcher,
      method,
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await reply.body.text();
    const isJson = String(reply.headers["content-type"]).startsWith("application/json");
    const parsed: unknown = isJson ? JSON.parse(text) : undefined;
    return { status: reply.statusCode, headers: reply.headers, text, body: parsed };
  }

  const call = (wanted: Call) =>
    send({ ...wanted, headers: { "x-api-key": embedded.apiKey, ...wanted.headers } });
  const owned = stack.move();
  return {
    embedded,
    home,
    dispatcher,
    async create(body = {}) {
      const reply = await call({
        method: "POST",
        path: "/v2/sandboxes",
        body: { templateID: "base", ...body },
      });
      return sandboxSchema.parse(reply.body);
    },
    call,
    enter: ({ sandboxID, port = 49_983 }, wanted) =>
      send({
        ...wanted,
        headers: {
          "e2b-sandbox-id": sandboxID,
          "e2b-sandbox-port": String(port),
          ...wanted.headers,
        },
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
