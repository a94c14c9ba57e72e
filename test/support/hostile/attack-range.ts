/**
 * A place to attack from: a service on one runtime with an attacked sandbox and a neighbour, and
 * canaries on the host that must be the same after every attack.
 */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { chmod, lstat, mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { Sandbox, type SandboxOpts } from "e2b";
import { openOrdinaryUser } from "../ordinary-user.ts";
import { hasOwnKernel, type AttackPlace } from "../runtimes.ts";
import { startServe, type TestServe } from "../serve.ts";
import { makeTempFolder } from "../temp-folder.ts";

/** The programs of the attacks; every sandbox and every control run gets the same ones. */
export const ATTACKS: string = resolve(import.meta.dirname, "../../security/escape/attacks");
const INSIDE = "/opt/attacks";
/** What E29 uses up, one of these at a time. */
export const TABLES: readonly string[] =
  "descriptors epoll inotify watches terminals segments locked queues timers pipes locks".split(
    " ",
  );
/** Above the accounts of the machine and their subordinate ids. */
const FIRST_ID = 0x100000;
const ANSWER_LIMIT_MS = 1_000;
/** A machine under load may be late once: the best of these counts. */
const ANSWER_TRIES = 5;

/** Outcomes by the name of the attempt: `ok`, the name of an errno, of a signal, or a word. */
export type Outcomes = Readonly<Record<string, string>>;

export interface Attack {
  /** The program that has it, without its ending. */
  readonly program: string;
  readonly id: string;
  readonly words?: readonly (string | number)[];
  /** What starts the program, instead of nothing. */
  readonly through?: readonly string[];
}

export interface AttackRange extends AsyncDisposable {
  readonly serve: TestServe;
  readonly options: SandboxOpts;
  readonly sandbox: Sandbox;
  readonly neighbour: Sandbox;
  /** No id of a sandbox is below it, as the namespace of the service sees it. */
  readonly firstId: number;
  /** Whether programs of its sandboxes are answered by a kernel of their own. */
  readonly hasOwnKernel: boolean;
  /** Files on the host that everybody may read; no sandbox must ever see one. */
  readonly canary: Canary;
  /** Runs an attack in the attacked sandbox, or in another one. */
  attack(attack: Attack, user: string, target?: Sandbox): Promise<Outcomes>;
  /** Puts the programs of the attacks into a sandbox. */
  equip(sandbox: Sandbox): Promise<void>;
  /** A new sandbox with the programs of the attacks in it. */
  createSandbox(options?: SandboxOpts): Promise<Sandbox>;
  /** Fails unless the canaries are unchanged, the service is healthy and the neighbour answers. */
  check(): Promise<void>;
}

export interface Canary extends AsyncDisposable {
  readonly path: string;
  /** The folder with a file `ptmx`, open to everybody. */
  readonly decoy: string;
  readonly secret: string;
  /** A hash over names, owners, modes, times and contents. */
  fingerprint(): Promise<string>;
}

/** Makes the canaries. */
export async function makeCanary(): Promise<Canary> {
  const folder = await makeTempFolder();
  const decoy = join(folder.path, "decoy");
  const secret = `canary-${createHash("sha256").update(folder.path).digest("hex").slice(0, 32)}`;
  await chmod(folder.path, 0o755);
  await writeFile(join(folder.path, "secret.txt"), secret, { mode: 0o644 });
  await mkdir(decoy);
  await chmod(decoy, 0o777);
  await writeFile(join(decoy, "ptmx"), "decoy");
  return {
    path: folder.path,
    decoy,
    secret,
    fingerprint: async () => fingerprintOf(folder.path),
    [Symbol.asyncDispose]: async () => folder[Symbol.asyncDispose](),
  };
}

/** Describes a folder and all that is in it, by a hash; no link is followed. */
async function fingerprintOf(folder: string): Promise<string> {
  const hash = createHash("sha256");
  const waiting = [folder];
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    const entry = await lstat(path);
    const { mode, uid, gid, size, mtimeMs } = entry;
    hash.update(`${path} ${mode} ${uid} ${gid} ${size} ${mtimeMs}\n`);
    if (entry.isFile()) hash.update(await readFile(path));
    if (entry.isSymbolicLink()) hash.update(await readlink(path));
    if (!entry.isDirectory()) continue;
    const names = await readdir(path);
    waiting.push(...names.toSorted().map((name) => join(path, name)));
  }
  return hash.digest("hex");
}

/** Starts a service on this runtime with two sandboxes, as root or as an account without rights. */
export async function startRange(
  { runtime, isRootless }: AttackPlace,
  flags: readonly string[] = [],
): Promise<AttackRange> {
  await using stack = new AsyncDisposableStack();
  const account = isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
  const canary = stack.use(await makeCanary());
  const serve = stack.use(await startServe(["--runtime", runtime, ...flags], { account }));
  const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  const made: Sandbox[] = [];
  const createSandbox = async (wanted: SandboxOpts = {}) => {
    const one = await Sandbox.create("base", { ...options, ...wanted });
    made.push(one);
    await equip(one);
    return one;
  };
  const [sandbox, neighbour] = await Promise.all([createSandbox(), createSandbox()]);
  // `serve` leaves its sandboxes when it ends; these end before it.
  stack.defer(async () => {
    await Promise.all(made.map((one) => one.kill()));
  });
  const before = await canary.fingerprint();
  const owned = stack.move();
  return {
    serve,
    options,
    sandbox,
    neighbour,
    firstId: isRootless ? 1 : FIRST_ID,
    hasOwnKernel: hasOwnKernel(runtime),
    canary,
    createSandbox,
    equip,
    attack: async (attack, user, target = sandbox) => {
      const command = attackCommand(attack).join(" ");
      return parseOutcomes((await target.commands.run(command, { user, timeoutMs: 0 })).stdout);
    },
    async check() {
      assert.equal(await canary.fingerprint(), before, "a canary was changed");
      assert.equal((await fetch(`${serve.url}/health`)).status, 204);
      await checkAlive(async (command) => neighbour.commands.run(command));
    },
    [Symbol.asyncDispose]: async () => owned.disposeAsync(),
  };
}

/** The command that runs an attack, in a sandbox or in a control run. */
export function attackCommand({ program, id, words = [], through = [] }: Attack): string[] {
  return [...through, "python3", "-B", `${INSIDE}/${program}.py`, id, ...words.map(String)];
}

/** What an attack printed. */
export function parseOutcomes(text: string): Outcomes {
  const value: unknown = JSON.parse(text);
  assert.ok(typeof value === "object" && value !== null);
  return Object.fromEntries(
    Object.entries(value).map(([name, outcome]) => [name, String(outcome)]),
  );
}

/** The programs of the attacks, by their paths on the host and inside. */
export function attackFiles(): readonly { readonly source: string; readonly path: string }[] {
  return readdirSync(ATTACKS)
    .filter((name) => name.endsWith(".py"))
    .map((name) => ({ source: join(ATTACKS, name), path: `${INSIDE}/${name}` }));
}

async function equip(sandbox: Sandbox): Promise<void> {
  for (const { source, path } of attackFiles()) {
    await sandbox.files.write(path, await readFile(source, "utf8"), { user: "root" });
  }
}

/** Fails unless `echo alive` is answered within a second. */
export async function checkAlive(run: (command: string) => Promise<{ stdout: string }>) {
  const times: number[] = [];
  while (times.length < ANSWER_TRIES && !times.some((time) => time < ANSWER_LIMIT_MS)) {
    const startedMs = performance.now();
    assert.equal((await run("echo alive")).stdout, "alive\n");
    times.push(performance.now() - startedMs);
  }
  assert.ok(Math.min(...times) < ANSWER_LIMIT_MS, `the neighbour answered in ${times.join()} ms`);
}
