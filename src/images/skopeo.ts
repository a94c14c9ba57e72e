/** Runs skopeo: with a login that is in no argument and in no file with a name, and bounded. */

import { open, unlink, type FileHandle } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { findProgram } from "../engine/host/find-program.ts";
import { installCommand } from "../engine/host/install-command.ts";
import { perlCommand } from "../engine/host/perl-program.ts";
import { runProgram } from "../engine/host/run-program.ts";
import type { RegistryCredentials } from "./images.ts";
import { MAX_DOCUMENT_BYTES } from "./layout.ts";
import { findLoginFile, isLoginKeptElsewhere } from "./login-files.ts";
import type { Source } from "./reference.ts";
import { startRegistryProxy, type RegistryProxyOptions } from "./registry-proxy.ts";

const SKOPEO = "skopeo";
/** Images have gigabytes, and registries may be slow; what is asked first has a few kilobytes. */
const TIMEOUT_MS = { copy: 60 * 60_000, inspect: 2 * 60_000 } as const;
const PLATFORM = { x64: "amd64", arm64: "arm64" } as const;

/** Whether this machine has it. */
export function hasSkopeo(): boolean {
  return findProgram(SKOPEO) !== undefined;
}

/** @throws SandboxError unavailable */
export function requireSkopeo(): void {
  if (hasSkopeo()) return;
  throw new SandboxError("unavailable", "images are fetched by skopeo, which is not installed", {
    hint: installCommand(),
  });
}

export interface SkopeoTask {
  readonly source: Source;
  /** A directory of this pull alone, for temporary files. */
  readonly directory: string;
  readonly credentials: RegistryCredentials | undefined;
  readonly authFiles: readonly string[];
  readonly maxBytes: number;
  /** Given where a request named the image: skopeo reaches what this allows, and nothing else. */
  readonly confined?: Confinement | undefined;
  readonly signal: AbortSignal;
  onLine?(line: string): void;
}

/** What shuts skopeo into a network from which the proxy of `registry-proxy.ts` alone is reached. */
export type Confinement = Pick<RegistryProxyOptions, "mirrors" | "nameServers"> & {
  readonly perlDirectory: string;
};

/** The manifest or index of the source, as it is. */
export async function inspectRaw(task: SkopeoTask): Promise<string> {
  return runSkopeo(task, TIMEOUT_MS.inspect, (login) => [
    "inspect",
    "--raw",
    ...login,
    task.source.address,
  ]);
}

/** Copies the image for this machine's platform into an OCI layout of this name in the directory. */
export async function copyToLayout(task: SkopeoTask, name: string): Promise<void> {
  // Skopeo runs there: it takes a path for what comes before the first colon.
  const target = `oci:${name}:image`;
  await runSkopeo(task, TIMEOUT_MS.copy, (login) => [
    "copy",
    "--remove-signatures",
    ...login.map((word) => word.replace(/^--/, "--src-")),
    task.source.address,
    target,
  ]);
}

/**
 * How skopeo may speak to a registry. Without a login it is told so: otherwise it looks for one in
 * the home directory of this program's user and in /run, which is the login of the machine's owner.
 */
export function accessOptions(
  { host, isPlain }: Pick<Source, "host" | "isPlain">,
  loginPath: string | undefined,
): string[] {
  const anonymous = host === undefined ? [] : ["--no-creds"];
  return [
    ...(loginPath === undefined ? anonymous : [`--authfile=${loginPath}`]),
    ...(isPlain ? ["--tls-verify=false"] : []),
  ];
}

type Words = (login: readonly string[]) => readonly string[];

async function runSkopeo(task: SkopeoTask, timeoutMs: number, words: Words): Promise<string> {
  requireSkopeo();
  const { source, directory, maxBytes, signal } = task;
  await using login = await openLogin(task);
  const { confined } = task;
  await using proxy = confined && (await startRegistryProxy({ directory, maxBytes, ...confined }));
  const shut =
    proxy === undefined || confined === undefined
      ? []
      : perlCommand(confined.perlDirectory, "behind-proxy", [
          process.arch,
          ...proxy.listeners,
          "--",
        ]);
  const options = accessOptions(source, login?.path);
  // One file of an image cannot be longer than all of it may be.
  const limits = ["prlimit", `--fsize=${maxBytes}`, "--core=0"] as const;
  // Without HOME, skopeo of an ordinary user, root of its namespace, fails to read that of root.
  const bound = [...limits, "env", `HOME=${homedir()}`] as const;
  const common = [
    SKOPEO,
    `--tmpdir=${directory}`,
    "--override-os=linux",
    `--override-arch=${PLATFORM[process.arch === "arm64" ? "arm64" : "x64"]}`,
  ];
  // The operator named the mirror, not the request.
  const isMirror = confined !== undefined && source.isMirrored;
  let fatal: string | undefined;
  const onLine = (line: string) => {
    const { level, text } = readLine(line);
    if (level === FATAL) fatal = text;
    else if (!isMirror || PROGRESS.test(text)) task.onLine?.(text);
  };
  try {
    return await runProgram([...bound, ...shut, ...common, ...words(options)], {
      timeoutMs,
      maxOutputBytes: MAX_DOCUMENT_BYTES,
      signal,
      cwd: directory,
      onLine,
    });
  } catch (error) {
    // What the proxy refused says more than how skopeo failed by it.
    const fault =
      (isEnded(error) ? undefined : proxy?.refusal()) ??
      toPullFault(withText(error, fatal), timeoutMs);
    throw isMirror ? withoutMirror(fault) : await withLoginHint(fault, task, login);
  }
}

/** What skopeo says without a fault. */
const PROGRESS = /^(?:Getting|Copying|Writing|Storing) /;

/** A line of its log, whose text is quoted unless it is one word. */
const LOG_PATTERN = /^time="[^"]*" level=([a-z]+) msg=(?:"(.*)"|(\S*))/;
const FATAL = "fatal";
/** Said of every fault, also where a registry does not answer. */
const NAMING_FAULT = /^Error parsing image name "(?:[^"\\]|\\.)*": /;

/** What a line says, without the time and the quotes of a log. */
export function readLine(line: string): { readonly level: string; readonly text: string } {
  const [, level = "", quoted, word = line] = LOG_PATTERN.exec(line) ?? [];
  const text = quoted?.replaceAll(/\\(["\\])/g, "$1") ?? word;
  return { level, text: text.replace(NAMING_FAULT, "") };
}

function withText(error: unknown, fatal: string | undefined): unknown {
  if (fatal === undefined || isEnded(error)) return error;
  const message = `${SKOPEO}: ${quoteUntrusted(fatal)}`;
  return new SandboxError("unavailable", message, { cause: error });
}

function isEnded(error: unknown): boolean {
  return error instanceof SandboxError && error.code !== "unavailable";
}

const FAULTS: readonly (readonly [RegExp, "not_found" | "permission_denied", string])[] = [
  [/manifest unknown|name unknown|not found|no such file/i, "not_found", "there is no such image"],
  [
    // Ports and digests have such numbers in them, too.
    /unauthorized|authentication required|(?<!: permission )denied|status\D{0,24}40[13]\b/i,
    "permission_denied",
    "the registry refuses this login",
  ],
  [/no image found in .*for architecture/i, "not_found", "it has nothing for this machine"],
];

export function toPullFault(error: unknown, timeoutMs = 0): unknown {
  if (!(error instanceof SandboxError)) return error;
  const { code } = error;
  if (code === "deadline_exceeded") {
    const minutes = timeoutMs / 60_000;
    const message = `the registry has not sent the image within ${minutes} minutes`;
    return new SandboxError(code, message, { cause: error });
  }
  if (code !== "unavailable") return error;
  const said = error.message.replace(/^prlimit: /, `${SKOPEO}: `);
  const [, known, reason] = FAULTS.find(([pattern]) => pattern.test(said)) ?? [];
  const message = `${NOT_FETCHED}${reason === undefined ? "" : `${reason}: `}${said}`;
  return new SandboxError(known ?? code, message, { cause: error });
}

const STORE_HINT =
  "docker keeps its login in the program of credsStore, which is not asked: log in by skopeo login or podman login, or name the program in credHelpers";

/** A registry refuses also what comes without a login, as docker's own is not found. */
async function withLoginHint(
  fault: unknown,
  { authFiles, source: { host = "" } }: SkopeoTask,
  login: Login | undefined,
): Promise<unknown> {
  const isRefused = hasErrorCode(fault, "permission_denied") && login === undefined;
  if (!isRefused || !(await isLoginKeptElsewhere(authFiles, host))) return fault;
  return new SandboxError(fault.code, fault.message, { cause: fault, hint: STORE_HINT });
}

const NOT_FETCHED = "the image was not fetched: ";
const MIRROR_FAULT = "the service's mirror of its registry did not send it";
const NAMING: ReadonlySet<string> = new Set(["not_found", "permission_denied", "unavailable"]);

/** What a request may know: neither where the mirror is nor what it leads to. */
function withoutMirror(fault: unknown): unknown {
  if (!(fault instanceof SandboxError) || !NAMING.has(fault.code)) return fault;
  const [, , reason = MIRROR_FAULT] =
    FAULTS.find(([, , known]) => fault.message.startsWith(`${NOT_FETCHED}${known}: `)) ?? [];
  return new SandboxError(fault.code, `${NOT_FETCHED}${reason}`, { cause: fault });
}

/** The login as a path that skopeo can open, again and again, while this object is there. */
interface Login extends AsyncDisposable {
  readonly path: string;
}

async function openLogin(task: SkopeoTask): Promise<Login | undefined> {
  const { credentials, source, directory } = task;
  if (source.host === undefined) return undefined;
  if (credentials === undefined) {
    const path = await findLoginFile(task.authFiles, source.host);
    return path === undefined ? undefined : { path, [Symbol.asyncDispose]: async () => {} };
  }
  const { username, password } = credentials;
  const auth = Buffer.from(`${username}:${password}`, "utf8").toString("base64");
  const file = await openNameless(join(directory, "login"));
  try {
    await file.writeFile(JSON.stringify({ auths: { [source.host]: { auth } } }));
  } catch (error) {
    await file.close();
    throw error;
  }
  const path = `/proc/${process.pid}/fd/${file.fd}`;
  return { path, [Symbol.asyncDispose]: () => file.close() };
}

/** A file that has lost its name before it has content: it goes with this process at the latest. */
async function openNameless(path: string): Promise<FileHandle> {
  const file = await open(path, "wx+", 0o600);
  try {
    await unlink(path);
  } catch (error) {
    await file.close();
    throw error;
  }
  return file;
}
