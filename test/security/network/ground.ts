/** What the tests of the network share: a lab, a service in it, and what they do inside a sandbox. */

import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox, type SandboxOpts } from "e2b";
import { LAB, startLab, type Lab } from "../../support/network/lab.ts";
import { placeUser } from "../../support/network/placed-user.ts";
import { startSocketRelay } from "../../support/network/socket-relay.ts";
import { openOrdinaryUser, type OrdinaryUser } from "../../support/ordinary-user.ts";
import { hasOwnKernel } from "../../support/runtimes.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const ROUTERS = "/run/sandbox-mcp/routers";
const ATTACK = join(import.meta.dirname, "attack.py");
const ATTACK_PATH = "/tmp/attack.py";

export const ALL = "0.0.0.0/0";
/** Where the public hosts of the lab answer. */
export const OPEN = `http://${LAB.publicHost}:${LAB.port}/`;
export const OTHER = `http://${LAB.otherHost}:${LAB.port}/`;

export const FAILED =
  /refused|unreachable|timed out|timeout|couldn't connect|failed to connect|no route|not permitted/i;

export type OwnSandbox = Sandbox & AsyncDisposable;

export interface Ground extends AsyncDisposable {
  readonly lab: Lab;
  /** Whether programs are answered by a kernel of their own. */
  readonly hasOwnKernel: boolean;
  /** Of every service in the lab. */
  readonly flags: readonly string[];
  readonly serve: TestServe;
  /** Who runs the service; undefined for root. */
  readonly account: OrdinaryUser | undefined;
  readonly options: SandboxOpts;
  /** Kills the service, does something meanwhile, and starts it anew at its address. */
  restart(meanwhile: () => Promise<void>): Promise<void>;
  create(more?: SandboxOpts): Promise<OwnSandbox>;
  /** A sandbox that may reach these alone. */
  createFor(allowOut: readonly string[]): Promise<OwnSandbox>;
}

/** The ground, and a sandbox without rules of its own. */
export type Field = Ground & { readonly sandbox: Sandbox };

/** A lab with one service on this runtime in it. */
export async function startGround(runtime: string): Promise<Ground> {
  await using parts = new AsyncDisposableStack();
  const lab = parts.use(await startLab());
  const flags = [...labFlags(runtime), "--egress", lab.namespace];
  const service = parts.use(await startService(flags, undefined));
  const ending = parts.move();
  return {
    ...service,
    lab,
    hasOwnKernel: hasOwnKernel(runtime),
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}

/** A lab with one service of an ordinary user in it, whose machine is the user's machine. */
export async function startOrdinaryGround(): Promise<Ground> {
  await using parts = new AsyncDisposableStack();
  const account = parts.use(await openOrdinaryUser({ ids: true }));
  const lab = parts.use(await startLab(account.uid));
  const flags = [...labFlags("crun"), "--egress", "on"];
  const service = parts.use(await startService(flags, placeUser(account, lab.namespace)));
  const ending = parts.move();
  return {
    ...service,
    lab,
    hasOwnKernel: false,
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}

async function startService(
  flags: readonly string[],
  account: OrdinaryUser | undefined,
): Promise<Omit<Ground, "lab" | "hasOwnKernel">> {
  await using parts = new AsyncDisposableStack();
  const serve = parts.use(await startServe(flags, { account }));
  let current = serve;
  parts.defer(async () => {
    if (current !== serve) await current[Symbol.asyncDispose]();
  });
  const door = join(serve.home, "instances", "serve", "door.sock");
  // The port of a service in another network namespace cannot be reached from here.
  const url = account === undefined ? serve.url : parts.use(await startSocketRelay(door)).url;
  const options = { apiKey: serve.apiKey, apiUrl: url, sandboxUrl: url };
  const ending = parts.move();
  const create = async (more: SandboxOpts = {}): Promise<OwnSandbox> => {
    const made = await Sandbox.create("base", { ...options, ...more });
    return Object.assign(made, { [Symbol.asyncDispose]: async () => void (await made.kill()) });
  };
  return {
    flags,
    serve: { ...serve, url },
    account,
    options,
    create,
    createFor: async (allowOut) => create({ network: { allowOut: [...allowOut], denyOut: [ALL] } }),
    async restart(meanwhile) {
      current.program.child.kill("SIGKILL");
      await current.program.exited();
      await meanwhile();
      current = await startServe(flags, { earlier: serve, account });
    },
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}

/** Sandboxes that wait to be taken would have links too. */
function labFlags(runtime: string): readonly string[] {
  return ["--runtime", runtime, "--pool", "0", "--dns", LAB.nameServer];
}

/** Everything a command of root inside prints, whatever its exit code. */
export async function inside(target: Sandbox, command: string): Promise<string> {
  const words = `{ ${command}; } 2>&1; true`;
  // What it runs has time limits of its own.
  const result = await target.commands.run(words, {
    user: "root",
    timeoutMs: 0,
    requestTimeoutMs: 0,
  });
  return result.stdout.trim();
}

export async function fetchFrom(target: Sandbox, url: string): Promise<string> {
  return inside(target, `curl -sS -m 2 ${url}`);
}

export async function udpFrom(target: Sandbox, host: string, port: number): Promise<string> {
  const program = `import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.connect(('${host}', ${port})); s.send(b'knock'); print(s.recv(99))`;
  return inside(target, `python3 -c "${program}" | tail -n 1`);
}

/** The address that a sandbox sends from. */
export async function addressOf(target: Sandbox): Promise<string> {
  const program = `import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('${LAB.publicHost}', 9)); print(s.getsockname()[0])`;
  return inside(target, `python3 -c "${program}"`);
}

type Kind = "tcp" | "udp" | "icmp" | "raw" | "name" | "literal" | "abstract";
export type Attempt = readonly [kind: Kind, host: string, port: number];

/** Runs all attempts at once, again and again for so long; the outcome of each, by its own name. */
export async function attack(
  target: Sandbox,
  attempts: readonly Attempt[],
  seconds = 0,
): Promise<Record<string, string>> {
  await target.files.write(ATTACK_PATH, await readFile(ATTACK, "utf8"));
  const words = `'${JSON.stringify(attempts)}' ${seconds}`;
  const printed = await inside(target, `python3 ${ATTACK_PATH} ${words} | tail -n 1`);
  const outcomes: unknown = JSON.parse(printed);
  if (!Array.isArray(outcomes)) throw new Error(`not outcomes: ${printed}`);
  return Object.fromEntries(
    attempts.map((entry, index) => [entry.join(" "), String(outcomes[index])]),
  );
}

/** Those attempts that brought an answer. */
export function answered(outcomes: Record<string, string>): string[] {
  return Object.keys(outcomes).filter((name) => outcomes[name] === "answered");
}

/** Takes the defence away: every chain of a service's router and of its link lets all through. */
export async function disarm({ serve, lab, account }: Ground): Promise<void> {
  const router = `nft ${openChains("sandboxes", ["guard", "forward", "input", "output"])}`;
  const open = async (path: string) =>
    promisify(execFile)("nsenter", [`--net=${path}`, ...router.split(" ")]);
  if (account !== undefined) {
    const [uplink] = await uplinkPrograms(serve.home);
    // The file of the namespace is the last word but one.
    await open(uplink?.words.at(-2) ?? "");
    return;
  }
  const slot = await routerOf(serve.home);
  await open(join(ROUTERS, `${slot}.net`));
  const link = openChains(`sandbox_mcp_${slot}`, ["local", "input", "forward"]);
  await lab.onMachine(`nft ${link}`);
}

function openChains(table: string, chains: readonly string[]): string {
  return chains.map((chain) => `insert rule inet ${table} ${chain} accept`).join(" ; ");
}

interface UplinkProgram {
  readonly pid: number;
  readonly words: readonly string[];
}

/** An ordinary user's ways out, one for each service of the home. */
export async function uplinkPrograms(home: string): Promise<UplinkProgram[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found: UplinkProgram[] = [];
  for (const pid of pids) {
    const text = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const words = text.split("\0").slice(0, -1);
    if (words[0]?.startsWith(`sandbox-mcp-uplink:${home}/`))
      found.push({ pid: Number(pid), words });
  }
  return found;
}

/** The hostname proxies of a service. */
export async function namePrograms({
  serve,
  account,
}: Pick<Ground, "serve" | "account">): Promise<number[]> {
  if (account === undefined) return egressPrograms(serve.home);
  // The last of the account's ids.
  return programsOf([(account.idBase ?? 0) + 65_535]);
}

/** The hostname proxies of all routers of a home. */
export async function egressPrograms(home: string): Promise<number[]> {
  return programsOf((await routersOf(home)).map((slot) => 2_000_000_000 + Number(slot)));
}

async function programsOf(users: readonly number[]): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
      // Real, effective, saved and file system id: all four are the same.
      const ids = /^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)$/m.exec(status)?.slice(1) ?? [];
      return users.some((user) => ids.length === 4 && ids.every((id) => Number(id) === user));
    }),
  );
  return pids.filter((_pid, index) => found[index]).map(Number);
}

/** The number of the router that the service of a home has. */
async function routerOf(home: string): Promise<string> {
  const [slot] = await routersOf(home);
  if (slot === undefined) throw new Error(`no router for ${home}`);
  return slot;
}

async function routersOf(home: string): Promise<string[]> {
  const slots = (await readdir(ROUTERS)).filter((name) => /^\d+$/.test(name));
  const owners = await Promise.all(
    // Another service's may go between the two looks.
    slots.map(async (slot) => readlink(join(ROUTERS, slot)).catch(() => "")),
  );
  return slots.filter((_slot, index) => owners[index]?.startsWith(`${home}/`));
}
