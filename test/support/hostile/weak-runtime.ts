/**
 * A runtime that takes one defence out of every container before the real one starts it: the control
 * runs of attacks that only this defence stops. It is for tests alone.
 */

import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startOciHost, type OciHost } from "../engine/oci-host.ts";
import { runtimePath } from "../runtimes.ts";
import { makeTempFolder } from "../temp-folder.ts";

export interface Weakness {
  /** JavaScript that changes `config`, the whole OCI configuration. */
  readonly config?: string;
  /** A folder that the runtime hands on as one more open descriptor. */
  readonly leak?: string;
  /** Shell lines that run beside the mounted root, in the engine's own mount namespace. */
  readonly stage?: string;
}

/** A host whose containers lack one defence. */
export async function startWeakHost(runtime: string, weakness: Weakness): Promise<OciHost> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const change = join(folder.path, "change.mjs");
  await writeFile(change, changeProgram(weakness.config ?? ""));
  const path = join(folder.path, "runtime");
  const real = runtimePath(runtime) ?? runtime;
  await writeFile(path, wrapper({ change, real, weakness }));
  await chmod(path, 0o755);
  // Processes of a kernel of its own are known by the file that they run: this one, or one beside it.
  await mkdir(join(folder.path, "gvisor-bin"));
  await symlink(real, join(folder.path, "gvisor-bin/runtime"));
  const host = stack.use(await startOciHost(path, "none"));
  const owned = stack.move();
  return { ...host, [Symbol.asyncDispose]: async () => owned.disposeAsync() };
}

function changeProgram(text: string): string {
  return `import { readFileSync, writeFileSync } from "node:fs";
const path = process.argv[process.argv.indexOf("--bundle") + 1] + "/config.json";
const config = JSON.parse(readFileSync(path, "utf8"));
${text}
writeFileSync(path, JSON.stringify(config));`;
}

/** The descriptors of the daemon's sockets, 3 and 4, stay open in the shell and go on. */
function wrapper(parts: { change: string; real: string; weakness: Weakness }): string {
  const { stage = ":", leak } = parts.weakness;
  // No word of the call has a blank in it.
  const call = `set -- $(echo "$*" | sed 's/--preserve-fds 2/--preserve-fds 3/')`;
  return `#!/bin/sh
set -e
case " $* " in
*" run "*)
  ${process.execPath} ${parts.change} "$@" 3>&- 4>&-
  from=$PWD
  cd /run/sandbox-mcp
  ${stage}
  cd "$from"
  ${leak === undefined ? ":" : `exec 5<${leak}; ${call}`}
  ;;
esac
exec ${parts.real} "$@"
`;
}
