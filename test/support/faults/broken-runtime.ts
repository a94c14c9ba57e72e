/** An OCI runtime that works, fails, hangs or takes its caller along, as a file tells it. */

import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { findProgram } from "../../../src/engine/host/find-program.ts";
import { startOciHost } from "../engine/oci-host.ts";

/**
 * `tell` fails with paths in its words. `late` hangs once the container runs, `silent` does so before
 * it has told of a process; the killers end the service, before the container runs or after it.
 */
export type RuntimeMood =
  | "work"
  | "fail"
  | "tell"
  | "hang"
  | "late"
  | "silent"
  | "kill first"
  | "kill last";

export interface BrokenRuntime extends AsyncDisposable {
  /** For `--runtime`. */
  readonly path: string;
  /** The name of the copy of its program that a runtime leaves which fails. */
  readonly copyName: string;
  set(mood: RuntimeMood): Promise<void>;
}

const MOOD = "mood";

/** Wraps the runtime that this machine works with. */
export async function makeBrokenRuntime(): Promise<BrokenRuntime> {
  const directory = await mkdtemp(join(tmpdir(), "smcp-run-"));
  const path = join(directory, "runtime");
  // An account without any rights may use it too.
  await chmod(directory, 0o755);
  const set = (mood: RuntimeMood) => writeFile(join(directory, MOOD), `${mood}\n`);
  await set("work");
  await writeFile(path, script(await findWorking(), directory), { mode: 0o755 });
  return {
    path,
    copyName: basename(directory),
    set,
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}

async function findWorking(): Promise<string> {
  await using host = await startOciHost("auto");
  const { runtime = "" } = await host.engine.probe();
  const program = findProgram(runtime.split(" ")[0] ?? "");
  if (program === undefined) throw new Error("no runtime works here");
  return program;
}

/** Its parent is the service: the launcher has become this program. */
function script(runtime: string, directory: string): string {
  const copy = `"\${_LIBCONTAINER_STATEDIR:-/tmp}/${basename(directory)}"`;
  return `#!/bin/sh
case "$*" in *" run "*) read -r mood < ${join(directory, MOOD)};; *) mood=work;; esac
case "$mood" in
fail) > ${copy}; exit 3;;
tell)
  while [ "$1" != --log ]; do shift; done
  echo "{\\"msg\\":\\"cannot open $0 below '$2': lstat /dev/loop7: no such device\\"}" > "$2"
  exit 3;;
hang) exec sleep 600;;
late) ${runtime} "$@"; exec sleep 600;;
silent)
  for word; do
    shift
    if [ "$word" = --pid-file ]; then skips=1; continue; fi
    if [ "$skips" ]; then skips=; continue; fi
    set -- "$@" "$word"
  done
  ${runtime} "$@"; exec sleep 600;;
"kill first") kill -9 "$PPID"; exec sleep 600;;
"kill last") ${runtime} "$@"; kill -9 "$PPID"; exec sleep 600;;
esac
exec ${runtime} "$@"
`;
}
