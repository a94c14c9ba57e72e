/** A sandbox of a running `serve`, spoken to by a client made from the schema of the wire alone. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { Filesystem } from "../../../src/gen/filesystem/filesystem_pb.ts";
import {
  Process,
  ProcessSelectorSchema,
  type ProcessSelector,
  type StartRequestSchema,
} from "../../../src/gen/process/process_pb.ts";
import { sandboxSchema } from "../../../src/wire/control.ts";
import type { TestServe } from "../serve.ts";

export interface RpcClients {
  readonly files: Client<typeof Filesystem>;
  readonly processes: Client<typeof Process>;
}

export interface RpcSandbox extends AsyncDisposable {
  readonly sandboxId: string;
  /** Addresses the sandbox, and carries its token. */
  readonly headers: Readonly<Record<string, string>>;
  /** Clients of one codec; `headers` are added, or replace those of the sandbox. */
  clients(options: ClientOptions): RpcClients;
}

export interface ClientOptions {
  readonly useBinaryFormat: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Creates a secured sandbox from the base template. */
export async function openRpcSandbox(serve: TestServe): Promise<RpcSandbox> {
  const key = { "x-api-key": serve.apiKey };
  const reply = await fetch(`${serve.url}/v2/sandboxes`, {
    method: "POST",
    headers: { ...key, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base" }),
  });
  const { sandboxID, envdAccessToken } = sandboxSchema.parse(await reply.json());
  const own = {
    "e2b-sandbox-id": sandboxID,
    "e2b-sandbox-port": "49983",
    "x-access-token": envdAccessToken ?? "",
  };
  return {
    sandboxId: sandboxID,
    headers: own,
    clients({ useBinaryFormat, headers = {} }) {
      const transport = createConnectTransport({
        baseUrl: serve.url,
        httpVersion: "1.1",
        useBinaryFormat,
        interceptors: [
          (next) => async (call) => {
            for (const [name, value] of Object.entries({ ...own, ...headers })) {
              call.header.set(name, value);
            }
            return next(call);
          },
        ],
      });
      return {
        files: createClient(Filesystem, transport),
        processes: createClient(Process, transport),
      };
    },
    async [Symbol.asyncDispose]() {
      await fetch(`${serve.url}/sandboxes/${sandboxID}`, { method: "DELETE", headers: key });
    },
  };
}

/** The two forms of every message; a suite that runs in both finds them equal. */
export const CODECS = [
  { codec: "JSON", useBinaryFormat: false },
  { codec: "binary", useBinaryFormat: true },
];

export function byPid(pid: number): ProcessSelector {
  return create(ProcessSelectorSchema, { selector: { case: "pid", value: pid } });
}

export function byTag(tag: string): ProcessSelector {
  return create(ProcessSelectorSchema, { selector: { case: "tag", value: tag } });
}

export function stdin(text: string) {
  return { input: { case: "stdin" as const, value: Buffer.from(text) } };
}

/** Starts a script of the login shell; `rest` is its stream after the start. */
export async function begin(
  processes: RpcClients["processes"],
  script: string,
  more: Pick<MessageInitShape<typeof StartRequestSchema>, "tag" | "stdin"> = {},
) {
  const process = { cmd: "/bin/bash", args: ["-l", "-c", script] };
  const iterator = processes.start({ process, ...more })[Symbol.asyncIterator]();
  const first = await iterator.next();
  const event = first.done === true ? undefined : first.value.event?.event;
  const rest = { [Symbol.asyncIterator]: () => iterator };
  return { pid: event?.case === "start" ? event.value.pid : 0, rest };
}
