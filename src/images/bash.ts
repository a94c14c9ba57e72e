/**
 * bash in an image that has none: that of this machine with its own loader and libraries in a
 * directory of their own, so that the image's C library does not matter.
 */

import { readFile, realpath } from "node:fs/promises";
import { basename } from "node:path";
import { parseLibraries } from "../engine/daemon/daemon.ts";
import { findProgram } from "../engine/host/find-program.ts";
import { runProgram } from "../engine/host/run-program.ts";
import { STAND_INS } from "./stand-ins.ts";
import type { TreeWriter } from "./tree-writer.ts";

const PLACES = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"] as const;
const FOLDER = `${STAND_INS}/bash`;
const PROGRAM_MODE = 0o755;

/** Where this machine has none, the image's own shell has to do. */
const FALLBACK = '#!/bin/sh\nexec /bin/sh "$@"\n';

const START = `#!/bin/sh
exec ${FOLDER}/loader --argv0 bash --library-path ${FOLDER}/lib ${FOLDER}/bash "$@"
`;

/** Says whether the image had none. */
export async function giveBash(files: TreeWriter, signal: AbortSignal): Promise<boolean> {
  // An image that was exported has the stand-in of its first import.
  const isOwn = [START, FALLBACK].includes((await files.read(PLACES[0])) ?? "");
  if (!isOwn && files.isProgram(PLACES[0])) return false;
  const other = isOwn ? undefined : PLACES.find((path) => files.isProgram(path));
  if (other !== undefined) {
    const text = `#!/bin/sh\nexec ${other} "$@"\n`;
    await files.write(PLACES[0], text, { mode: PROGRAM_MODE });
    return false;
  }
  const program = findProgram("bash");
  if (program === undefined) {
    await files.write(PLACES[0], FALLBACK, { mode: PROGRAM_MODE });
    return true;
  }
  const path = await realpath(program);
  const { loader, libraries } = parseLibraries(await runProgram(["ldd", path], { signal }));
  const parts = new Map([
    [`${FOLDER}/bash`, path],
    [`${FOLDER}/loader`, loader],
    ...libraries.map((library) => [`${FOLDER}/lib/${basename(library)}`, library] as const),
  ]);
  for (const [target, source] of parts) {
    await files.write(target, await readFile(source), { mode: PROGRAM_MODE });
  }
  await files.write(PLACES[0], START, { mode: PROGRAM_MODE });
  return true;
}
