/** Which programs are gVisor's runtime, and what a version of it can be told, by its own list. */

import { runProgram } from "../host/run-program.ts";

/** Without these there is no sandbox as the engine makes it. */
const NEEDED = ["host-uds", "network", "overlay2", "platform"] as const;
/** Used where the runtime has them; older ones did the same without being told. */
const WANTED = [
  { name: "allow-suid", value: undefined },
  // One for each: a shared one is a mount in the runtime's folder that outlives the sandbox.
  { name: "gofer-network-namespace", value: "new" },
  // A link to the outside does not keep memory from being saved; its connections end then.
  { name: "net-disconnect-ok", value: undefined },
  // A restored container has ids, a name and a cgroup of its own.
  { name: "restore-spec-validation", value: "warning" },
] as const;

/** Versions list some 120. */
const MAX_NAMES = 1_000;

/** The flags of every call; undefined for a program that is no such runtime. */
export async function readFlags(runtime: string): Promise<readonly string[] | undefined> {
  const names = new Set<string>();
  // The list goes to standard error.
  const onLine = (line: string): void => {
    const name = /^ +-([a-z][\w-]*)/i.exec(line)?.[1];
    if (name !== undefined && names.size < MAX_NAMES) names.add(name);
  };
  await runProgram([runtime, "flags"], { onLine }).catch(() => undefined);
  if (!NEEDED.every((name) => names.has(name))) return undefined;
  const wanted = WANTED.filter(({ name }) => names.has(name)).map(({ name, value }) =>
    value === undefined ? `--${name}` : `--${name}=${value}`,
  );
  // Files lie in the container's own overlay, not in one of the runtime.
  return ["--overlay2=none", "--network=sandbox", ...wanted];
}
