/** A real daemon as a plain child, reached over its two sockets, with a folder of its own. */

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { request as sendRequest, type IncomingHttpHeaders } from "node:http";
import { tmpdir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { Filesystem } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { Process } from "../../../src/gen/process/process_pb.ts";
import { createBareEngine } from "../engine/bare-engine.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";

/** As it is shipped; from its sources it takes four times as long to start. */
const MAIN = resolve(import.meta.dirname, "../../../dist/envd.cjs");
/** As in a sandbox: what needs more memory there shows here. */
const NODE_FLAGS = [
  "--v8-pool-size=0",
  "--max-semi-space-size=1",
  "--max-old-space-size=128",
  "--no-memory-reducer",
];
/** A world in which only one folder can be written, whatever paths the daemon is asked for. */
const SEAL = `mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro / &&
  shift && exec "$@"`;

export interface HttpRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface HttpReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
}

export interface TestDaemon extends AsyncDisposable {
  /** A folder for the test's own files. */
  readonly folder: string;
  readonly publicSocket: string;
  readonly controlSocket: string;
  readonly files: Client<typeof Filesystem>;
  readonly processes: Client<typeof Process>;
  /** Clients with other headers or the other codec. */
  transport(options: {
    readonly useBinaryFormat?: boolean;
    readonly headers?: Readonly<Record<string, string>>;
  }): Transport;
  http(path: string, request?: HttpRequest): Promise<HttpReply>;
  control(path: string, request?: HttpRequest): Promise<HttpReply>;
}

export interface TestDaemonOptions {
  /** The body of the first /init; null to send none. */
  readonly init?: Readonly<Record<string, unknown>> | null;
  readonly useBinaryFormat?: boolean;
  /** Keeps the daemon, where it is root, from writing anywhere but in the folder `w`. */
  readonly isSealed?: boolean;
  /** A program with arguments that becomes the daemon, which it gets as its last arguments. */
  readonly within?: readonly [string, ...string[]];
}

/** Starts the built daemon. */
export async function startTestDaemon(options: TestDaemonOptions = {}): Promise<TestDaemon> {
  const base = await mkdtemp(join(tmpdir(), "envd-test-"));
  const engine = createBareEngine({
    command: await commandOf(options, join(base, "w")),
    perlDirectory: PERL_DIRECTORY,
  });
  const directory = join(base, "c");
  const container = await engine.create(
    {
      id: "test",
      directory,
      layers: [],
      limits: { memoryMb: 128, cpus: 1, diskMb: 1, pids: 64 },
      hostname: "test",
      egress: "none" as const,
    },
    AbortSignal.timeout(20_000),
  );
  const publicSocket = join(directory, "envd.sock");
  const controlSocket = join(directory, "control.sock");
  const transport: TestDaemon["transport"] = ({ useBinaryFormat = false, headers = {} }) =>
    createConnectTransport({
      baseUrl: "http://localhost",
      httpVersion: "1.1",
      useBinaryFormat,
      nodeOptions: { socketPath: publicSocket },
      interceptors: [
        (next) => async (call) => {
          for (const [name, value] of Object.entries(headers)) call.header.set(name, value);
          return next(call);
        },
      ],
    });
  const standard = transport({ useBinaryFormat: options.useBinaryFormat ?? false });
  const daemon: TestDaemon = {
    folder: base,
    publicSocket,
    controlSocket,
    files: createClient(Filesystem, standard),
    processes: createClient(Process, standard),
    transport,
    http: async (path, request) => send(publicSocket, path, request),
    control: async (path, request) => send(controlSocket, path, request),
    async [Symbol.asyncDispose]() {
      await container[Symbol.asyncDispose]();
      await rm(base, { recursive: true, force: true });
    },
  };
  const { init = {} } = options;
  if (init !== null) {
    await daemon.control("/init", { method: "POST", body: JSON.stringify(init) });
  }
  return daemon;
}

async function commandOf(
  { isSealed = false, within }: TestDaemonOptions,
  writable: string,
): Promise<[string, ...string[]]> {
  const command: [string, ...string[]] = [process.execPath, ...NODE_FLAGS, MAIN];
  if (within !== undefined) return [...within, ...command];
  if (!isSealed || userInfo().uid !== 0) return command;
  await mkdir(writable);
  return ["unshare", "--mount", "/bin/sh", "-c", SEAL, "sh", writable, ...command];
}

async function send(
  socketPath: string,
  path: string,
  { method = "GET", headers = {}, body }: HttpRequest = {},
): Promise<HttpReply> {
  const { promise, resolve: done, reject } = Promise.withResolvers<HttpReply>();
  const call = sendRequest({ socketPath, path, method, headers, agent: false }, (reply) => {
    const chunks: Buffer[] = [];
    reply.on("data", (chunk: Buffer) => chunks.push(chunk));
    reply.once("error", reject);
    reply.once("end", () => {
      const bytes = Buffer.concat(chunks);
      done({
        status: reply.statusCode ?? 0,
        headers: reply.headers,
        bytes,
        text: bytes.toString(),
      });
    });
  });
  call.once("error", reject);
  call.end(body);
  return promise;
}
