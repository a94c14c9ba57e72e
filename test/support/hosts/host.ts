/** What a host can do with the server, whatever client library and protocol era it has. */

import type { ToolReply } from "../mcp/tool-reply.ts";
import { OFFLINE, PROGRAM } from "../program.ts";
import type { TestServe } from "../serve.ts";

export interface HostCall {
  readonly onProgress?: (progress: { progress: number; message?: string | undefined }) => void;
  readonly signal?: AbortSignal;
}

/** Every request that the server refuses rejects with an error that has the JSON-RPC code. */
export interface Host extends AsyncDisposable {
  listTools(): Promise<readonly { readonly name: string; readonly annotations?: unknown }[]>;
  call(tool: string, input: object, settings?: HostCall): Promise<ToolReply>;
  listResources(): Promise<readonly string[]>;
  readResource(uri: string): Promise<string>;
  completeSandboxId(prefix: string): Promise<readonly string[]>;
  /** Tells of changes of a resource until it is disposed. */
  follow(uri: string, onUpdate: (uri: string) => void): Promise<AsyncDisposable>;
}

/** How one kind of host connects to a running service. */
export interface HostKind {
  readonly name: string;
  start(serve: TestServe): Promise<Host>;
}

/** How the program is started on stdio beside a running service. */
export function stdioCommand(serve: TestServe) {
  return {
    command: process.execPath,
    args: [PROGRAM, "stdio", "--toolsets", "all", "--home", serve.home],
    env: { PATH: process.env["PATH"] ?? "", ...OFFLINE, SANDBOX_MCP_LOG_LEVEL: "error" },
  };
}

/** The reference that completion asks about. */
export const LOG_TEMPLATE = { type: "ref/resource", uri: "sandbox:///{sandbox_id}/log" } as const;

/** The text of what a read returned. */
export function textOf(contents: readonly unknown[]): string {
  return contents
    .map((part) =>
      typeof part === "object" && part !== null && "text" in part ? String(part.text) : "",
    )
    .join("");
}
