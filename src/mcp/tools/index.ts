/** The tools, in alphabetical order of their names. */

import type { Tool } from "../tool.ts";
import { buildTemplate } from "./build-template.ts";
import { composeFiles } from "./compose-files.ts";
import { connectSandbox } from "./connect-sandbox.ts";
import { createSandbox } from "./create-sandbox.ts";
import { deleteSnapshot } from "./delete-snapshot.ts";
import { downloadUrl } from "./download-url.ts";
import { editFile } from "./edit-file.ts";
import { forkSandbox } from "./fork-sandbox.ts";
import { getLogs } from "./get-logs.ts";
import { getMetrics } from "./get-metrics.ts";
import { getProcessOutput } from "./get-process-output.ts";
import { getSandboxUrl } from "./get-sandbox-url.ts";
import { getSandbox } from "./get-sandbox.ts";
import { getTemplate } from "./get-template.ts";
import { killSandbox } from "./kill-sandbox.ts";
import { listDirectory } from "./list-directory.ts";
import { listProcesses } from "./list-processes.ts";
import { listSandboxes } from "./list-sandboxes.ts";
import { listSnapshots } from "./list-snapshots.ts";
import { listTemplates } from "./list-templates.ts";
import { makeDirectory } from "./make-directory.ts";
import { movePath } from "./move-path.ts";
import { pauseSandbox } from "./pause-sandbox.ts";
import { readFile } from "./read-file.ts";
import { removePath } from "./remove-path.ts";
import { runCode } from "./run-code.ts";
import { runProcess } from "./run-process.ts";
import { searchFilesTool } from "./search-files.ts";
import { sendInput } from "./send-input.ts";
import { sendSignal } from "./send-signal.ts";
import { setTimeoutTool } from "./set-timeout.ts";
import { snapshot } from "./snapshot.ts";
import { statPath } from "./stat-path.ts";
import { watchPath } from "./watch-path.ts";
import { writeFile } from "./write-file.ts";

export const TOOLS: readonly Tool[] = [
  buildTemplate,
  composeFiles,
  connectSandbox,
  createSandbox,
  deleteSnapshot,
  downloadUrl,
  editFile,
  forkSandbox,
  getLogs,
  getMetrics,
  getProcessOutput,
  getSandbox,
  getSandboxUrl,
  getTemplate,
  killSandbox,
  listDirectory,
  listProcesses,
  listSandboxes,
  listSnapshots,
  listTemplates,
  makeDirectory,
  movePath,
  pauseSandbox,
  readFile,
  removePath,
  runCode,
  runProcess,
  searchFilesTool,
  sendInput,
  sendSignal,
  setTimeoutTool,
  snapshot,
  statPath,
  watchPath,
  writeFile,
];
