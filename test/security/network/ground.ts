/** What the tests of the network share: a lab, a service in it, and what they do inside a sandbox. */

import { execFile } from "node:child_process";
import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox, type SandboxOpts } from "e2b";
import { LAB, startLab, type Lab } from "../../support/lab.ts";
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
  /** Of every service in the lab. */
  readonly flags: readonly string[];
  readonly serve: TestServe;
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
  const service = parts.use(await startService(labFlags(lab, runtime)));
  const ending = parts.move();
  return { ...service, lab, [Symbol.asyncDispose]: async () => ending.disposeAsync() };
}

async function startService(flags: readonly string[]): Promise<Omit<Ground, "lab">> {
  const serve = await startServe(flags);
  let later: TestServe | undefined;
  const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  const create = async (more: SandboxOpts = {}): Promise<OwnSandbox> => {
    const made = await Sandbox.create("base", { ...options, ...more });
    return Object.assign(made, { [Symbol.asyncDispose]: async () => void (await made.kill()) });
  };
  return {
    flags,
    serve,
    options,
    create,
    createFor: async (allowOut) => create({ network: { allowOut: [...allowOut], denyOut: [ALL] } }),
    async restart(meanwhile) {
      serve.program.child.kill("SIGKILL");
      await serve.program.exited();
      await meanwhile();
      later = await startServe(flags, { earlier: serve });
    },
    async [Symbol.asyncDispose]() {
      await later?.[Symbol.asyncDispose]();
      await serve[Symbol.asyncDispose]();
    },
  };
}

/** Sandboxes that wait to be taken would have links too. */
function labFlags(lab: Lab, runtime: string): readonly string[] {
  const ways = ["--egress", lab.namespace, "--dns", LAB.nameServer];
  return ["--runtime", runtime, "--pool", "0", ...ways];
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
export async function disarm({ serve, lab }: Ground): Promise<void> {
  const slot = await routerOf(serve.home);
  const router = `nft ${openChains("sandboxes", ["guard", "forward", "input", "output"])}`;
  const network = `--net=${join(ROUTERS, `${slot}.net`)}`;
  await promisify(execFile)("nsenter", [network, ...router.split(" ")]);
  const link = openChains(`sandbox_mcp_${slot}`, ["local", "input", "forward"]);
  await lab.onMachine(`nft ${link}`);
}

function openChains(table: string, chains: readonly string[]): string {
  return chains.map((chain) => `insert rule inet ${table} ${chain} accept`).join(" ; ");
}

/** Programs for names of hosts that the routers of a home have. */
export async function egressPrograms(home: string): Promise<number[]> {
  const users = (await routersOf(home)).map((slot) => 2_000_000_000 + Number(slot));
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
