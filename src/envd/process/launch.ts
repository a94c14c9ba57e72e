/** From a Start request to what is really executed: identity, environment, folder. */

import { realpathSync, statSync, type Stats } from "node:fs";
import { posix } from "node:path";
import { isCode, SandboxError } from "../../common/errors.ts";
import { fromSystemBytes, toSystemPath } from "../../common/file-names.ts";
import type { ProcessConfig } from "../../gen/process/process_pb.ts";
import { DEFAULT_PATH } from "../bundled-program.ts";
import { errnoText } from "../errno.ts";
import { canChangeOwner } from "../owner.ts";
import type { User } from "../user.ts";
import { requireExecutable, requireNames } from "./exec-bounds.ts";

/** What is executed, where and as whom. */
export interface Launch {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly words: readonly string[];
  /** Whom the command belongs to; undefined where nothing can be changed. */
  readonly identity: Pick<User, "uid" | "gid" | "groups"> | undefined;
}

export interface LaunchRequest {
  readonly config: ProcessConfig;
  readonly user: User;
  /** Resolved. */
  readonly cwd: string;
  readonly globals: ReadonlyMap<string, string>;
}

/**
 * Plans the execution.
 * @throws SandboxError invalid_argument when the folder cannot be entered, for a NUL byte, and for
 * more than a program can be started with.
 */
export function planLaunch(request: LaunchRequest): Launch {
  const { config, cwd } = request;
  const words = [config.cmd, ...config.args] as const;
  const variables = [...Object.entries(config.envs), ...request.globals].flat();
  if ([...words, ...variables].some((text) => text.includes("\0"))) {
    throw new SandboxError("invalid_argument", "command or environment contains a NUL byte");
  }
  requireNames(Object.keys(config.envs));
  const env = environmentOf(request);
  requireExecutable(words, env);
  requireEnterable(request);
  return { cwd, env, words, identity: canChangeOwner() ? request.user : undefined };
}

/** How much of a command an error repeats. */
const MAX_COMMAND_CHARACTERS = 1_000;

/** A command as errors tell it. */
export function commandText({ cmd, args }: Pick<ProcessConfig, "cmd" | "args">): string {
  const text = [cmd, ...args].join(" ");
  return text.length > MAX_COMMAND_CHARACTERS ? `${text.slice(0, MAX_COMMAND_CHARACTERS)}…` : text;
}

/** Later rows override earlier ones; nothing else is inherited. */
function environmentOf({ config, user, globals }: LaunchRequest): Record<string, string> {
  return Object.fromEntries([
    ["PATH", DEFAULT_PATH],
    ["HOME", user.home],
    ["USER", user.name],
    ["LOGNAME", user.name],
    ...globals,
    ...Object.entries(config.envs),
  ]);
}

/**
 * Tells a folder that cannot be entered before anything is started, as the user would meet it. It
 * looks without another thread, which takes a tenth of the time; nothing inside can mount what hangs.
 */
function requireEnterable({ config, cwd, user }: LaunchRequest): void {
  const command = commandText(config);
  const fault = (text: string, cause?: unknown) =>
    new SandboxError(
      "invalid_argument",
      `error starting process '${command}': fork/exec /bin/sh: ${text}`,
      { cause },
    );
  const missing = (cause?: unknown) =>
    new SandboxError("invalid_argument", `cwd '${cwd}' does not exist`, { cause });
  // What starts it is told the folder as text: a name that is none would be that of another one.
  if (typeof toSystemPath(cwd) !== "string") throw missing();
  let real: string;
  let stats: Stats;
  try {
    real = fromSystemBytes(realpathSync.native(cwd, "buffer"));
    stats = statSync(toSystemPath(real));
  } catch (error) {
    throw isCode(error, "ENOENT") ? missing(error) : fault(errnoText(error), error);
  }
  if (!stats.isDirectory()) throw fault("not a directory");
  if (user.uid === 0 || !canChangeOwner()) return;
  const above = parentsOf(real).map((path) => statSync(toSystemPath(path)));
  if (![stats, ...above].every((folder) => maySearch(folder, user))) {
    throw fault("permission denied");
  }
}

/** The folders above a path, up to the root. */
function parentsOf(path: string): string[] {
  const parents: string[] = [];
  for (let at = path; at !== "/";) {
    at = posix.dirname(at);
    parents.push(at);
  }
  return parents;
}

/** The permission to search a folder; the first class that fits decides, as in the kernel. */
function maySearch(stats: Stats, user: User): boolean {
  if (stats.uid === user.uid) return (stats.mode & 0o100) !== 0;
  if (user.groups.includes(stats.gid)) return (stats.mode & 0o010) !== 0;
  return (stats.mode & 0o001) !== 0;
}
