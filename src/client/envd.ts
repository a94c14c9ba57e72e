/** Everything that is asked of the daemon inside one sandbox. */

import { accessHeaders, type AccessSource } from "./access.ts";
import { createEventClient } from "./event-stream.ts";
import { createFiles, type FilesClient } from "./files.ts";
import { createFilesystem, type FilesystemClient } from "./filesystem.ts";
import type { Connection } from "./http.ts";
import { createProcess, type ProcessClient } from "./process.ts";
import { createRpcTransport } from "./rpc.ts";

/** One sandbox as its users see it. */
export interface Sandbox {
  readonly id: string;
  readonly files: FilesClient;
  readonly filesystem: FilesystemClient;
  readonly process: ProcessClient;
}

export interface EnvdOptions {
  readonly connection: Connection;
  /** Without a trailing slash. */
  readonly baseUrl: string;
  readonly source: AccessSource;
  /** Whether the daemon is that of this project, which accepts binary streams. */
  readonly isOwnDaemon: boolean;
}

/** The daemon of a sandbox behind an address. */
export function createEnvd(options: EnvdOptions): Sandbox {
  const { connection, baseUrl, source, isOwnDaemon } = options;
  const headers = () => accessHeaders(source);
  const rpc = { connection, baseUrl, headers };
  const plain = createRpcTransport({ ...rpc, isBinary: false });
  return {
    id: source.sandboxId,
    files: createFiles({ connection, baseUrl, source }),
    filesystem: createFilesystem(plain, source),
    process: createProcess(createRpcTransport({ ...rpc, isBinary: isOwnDaemon }), {
      source,
      plain,
      clock: connection.clock,
      streams: isOwnDaemon ? createEventClient({ ...rpc, isBinary: true }) : undefined,
    }),
  };
}
