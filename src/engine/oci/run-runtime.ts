/** Writes the configuration of a container and runs its runtime through the launcher. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";
import { isRootless } from "../../common/privilege.ts";
import { NO_PROCESS } from "../../common/shortage.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { readMaxProcesses } from "../host/open-files.ts";
import { runProgram } from "../host/run-program.ts";
import { SOCKET_NAMES } from "../network/container-sockets.ts";
import { bindFault } from "../storage/bind-paths.ts";
import { DISK_NAMES } from "../storage/disk.ts";
import { stageOf, stageSteps } from "../storage/rootfs.ts";
import { createBundle } from "./bundle.ts";
import { cgroupSteps, hasCgroups } from "./cgroups.ts";
import type { Claim, LaunchContext, Preparation } from "./launch-context.ts";
import { hasOptionLimit } from "./option-memory.ts";
import { limitSteps } from "./process-limits.ts";
import { FOLDER_NAMES } from "./remove-container.ts";

/** What the launcher says when a folder on the way to a bind is a link or a file. */
const BIND_STEP = "launcher: bind path:";
/** How a launcher or runtime reports that fork(2), or a thread of Go, was refused for want of a process. */
const REFUSED_FORK = /resource temporarily unavailable|failed to create new OS thread/i;
/** The program of the launcher, which becomes the runtime. */
const LAUNCHER_PREFIX = /^perl: /;
const DOCTOR = "run `sandbox-mcp doctor` on the machine of the service, which tries the runtime";
/**
 * Tells crun and runc where a copy of their program is for a moment: in the folder of the sandbox it
 * ends with the sandbox, although its runtime was killed. They use `/tmp` by themselves.
 */
const COPY_FOLDER = "_LIBCONTAINER_STATEDIR";
/** A runtime that takes longer hangs; it is ended then, with what it began. */
const START_TIMEOUT_MS = 30_000;

/** Writes the configuration for a runtime that shares this machine's kernel. */
export async function writeConfig(
  context: LaunchContext,
  claim: Claim,
  filter: string | undefined,
): Promise<void> {
  const { spec, idBase, cgroup } = claim;
  const stage = stageOf(spec.directory);
  const config = createBundle({
    id: spec.id,
    hostname: spec.hostname,
    limits: spec.limits,
    idBase,
    rootPath: stage.root,
    daemonPath: stage.daemon,
    usersPath: stage.users,
    cgroupPath: cgroup.path === "" ? undefined : cgroup.path,
    isCounted: context.cgroups.delegation !== undefined,
    maxProcesses: readMaxProcesses(),
    filter,
    host: {
      architecture: process.arch,
      hasSwapLimit: context.cgroups.hasSwapLimit,
      hasOptionLimit: hasOptionLimit(),
    },
  });
  await mkdir(join(spec.directory, FOLDER_NAMES.runtime), { mode: 0o700 });
  const path = join(spec.directory, FOLDER_NAMES.config);
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
}

/** Runs the runtime; returns the number of the first process. */
export async function runRuntime(
  context: LaunchContext,
  { claim, diskSteps }: Pick<Preparation, "claim" | "diskSteps">,
  signal: AbortSignal,
): Promise<number> {
  const { directory, id } = claim.spec;
  const file = (name: string) => join(directory, FOLDER_NAMES.runtime, name);
  const steps: LauncherStep[] = [
    ...limitSteps(),
    ...diskSteps,
    ["chdir", directory],
    ["listen", SOCKET_NAMES.public],
    ["listen", SOCKET_NAMES.control],
    ...stageSteps({
      stage: stageOf(directory),
      isMapped: !isRootless(),
      layers: claim.spec.layers,
      ...(claim.spec.binds !== undefined && { binds: claim.spec.binds }),
      idBase: claim.idBase,
      disk: join(directory, DISK_NAMES.mount),
      diskIdBase: claim.diskIdBase,
      daemon: context.daemon,
    }),
    ...cgroupSteps(context.cgroups, claim.cgroup),
    ["null", "0"],
    ["null", "1"],
    ["null", "2"],
    ["setenv", COPY_FOLDER, join(directory, FOLDER_NAMES.runtime)],
    ["chdir", directory],
  ];
  const manager = hasCgroups(context.cgroups) ? [] : ["--cgroup-manager", "disabled"];
  // From the folder of the container: crun reads a colon as the end of a kind of log.
  const log = join(FOLDER_NAMES.runtime, "log");
  const runtime = [context.runtime, "--root", file("state"), "--log", log] as const;
  const run = ["run", "--detach", "--bundle", directory, "--pid-file", file("pid")] as const;
  const command = launcherCommand(context.perlDirectory, [
    ...steps,
    ["exec", ...runtime, "--log-format", "json", ...manager, ...run, "--preserve-fds", "2", id],
  ]);
  try {
    await runProgram(command, { signal, timeoutMs: START_TIMEOUT_MS });
  } catch (error) {
    throw await explainFailure(error, file("log"));
  }
  return readFirstProcess(file("pid"));
}

/** The number of the first process, from the file of a runtime that reported success. */
export async function readFirstProcess(path: string): Promise<number> {
  const text = await readIfThere(path);
  if (text !== undefined) return Number(text);
  throw new SandboxError("unavailable", "runtime failed: it started no process", { hint: DOCTOR });
}

/** The runtime writes its complaint to its log; its standard error is not ours any more by then. */
export async function explainFailure(error: unknown, log: string): Promise<unknown> {
  if (!(error instanceof SandboxError)) return error;
  if (error.code === "deadline_exceeded") {
    const options = { cause: error, hint: DOCTOR };
    return new SandboxError(error.code, "the runtime did not end in time", options);
  }
  // With a hint it is no failure of the runtime.
  if (error.code !== "unavailable" || error.hint !== undefined) return error;
  if (error.message.includes(BIND_STEP)) {
    return bindFault("nothing can be mounted at the path of a volume: it is not a real folder");
  }
  const text = (await readIfThere(log)) ?? "";
  const messages = [...text.matchAll(/"msg":("(?:[^"\\]|\\.)*")/g)].map((match) => match[1] ?? "");
  // Without a word in its log it did not even understand the call.
  const reason = messages.at(-1) ?? error.message.replace(LAUNCHER_PREFIX, "");
  if (REFUSED_FORK.test(reason)) {
    const { message, hint } = NO_PROCESS;
    return new SandboxError("unavailable", message, { cause: error, hint });
  }
  return new SandboxError("unavailable", `runtime failed: ${quoteUntrusted(reason)}`, {
    cause: error,
    hint: DOCTOR,
  });
}
