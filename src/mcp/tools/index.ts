/** The tools, in alphabetical order of their names. */

import type { Tool } from "../tool.ts";
import { composeFiles } from "./compose-files.ts";
import { connectSandbox } from "./connect-sandbox.ts";
import { createSandbox } from "./create-sandbox.ts";
import { downloadUrl } from "./download-url.ts";
import { editFile } from "./edit-file.ts";
import { getLogs } from "./get-logs.ts";
import { getProcessOutput } from "./get-process-output.ts";
import { getSandbox } from "./get-sandbox.ts";
import { getTemplate } from "./get-template.ts";
import { killSandbox } from "./kill-sandbox.ts";
import { listDirectory } from "./list-directory.ts";
import { listSandboxes } from "./list-sandboxes.ts";
import { pauseSandbox } from "./pause-sandbox.ts";
import { readFile } from "./read-file.ts";
import { removePath } from "./remove-path.ts";
import { runProcess } from "./run-process.ts";
import { sendInput } from "./send-input.ts";
import { sendSignal } from "./send-signal.ts";
import { setTimeoutTool } from "./set-timeout.ts";
import { snapshot } from "./snapshot.ts";
import { statPath } from "./stat-path.ts";
import { watchPath } from "./watch-path.ts";
import { writeFile } from "./write-file.ts";

export const TOOLS: readonly Tool[] = [
  composeFiles,
  connectSandbox,
  createSandbox,
  downloadUrl,
  editFile,
  getLogs,
  getProcessOutput,
  getSandbox,
  getTemplate,
  killSandbox,
  listDirectory,
  listSandboxes,
  pauseSandbox,
  readFile,
  removePath,
  runProcess,
  sendInput,
  sendSignal,
  setTimeoutTool,
  snapshot,
  statPath,
  watchPath,
  writeFile,
];
