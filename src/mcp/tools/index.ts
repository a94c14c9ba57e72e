/** The tools, in alphabetical order of their names. */

import type { Tool } from "../tool.ts";
import { composeFiles } from "./compose-files.ts";
import { createSandbox } from "./create-sandbox.ts";
import { getProcessOutput } from "./get-process-output.ts";
import { killSandbox } from "./kill-sandbox.ts";
import { listDirectory } from "./list-directory.ts";
import { readFile } from "./read-file.ts";
import { runProcess } from "./run-process.ts";
import { sendSignal } from "./send-signal.ts";
import { snapshot } from "./snapshot.ts";
import { watchPath } from "./watch-path.ts";
import { writeFile } from "./write-file.ts";

export const TOOLS: readonly Tool[] = [
  composeFiles,
  createSandbox,
  getProcessOutput,
  killSandbox,
  listDirectory,
  readFile,
  runProcess,
  sendSignal,
  snapshot,
  watchPath,
  writeFile,
];
