/**
 * `npm run bench -- first-create`: the stdio server in an empty home, as root and as an ordinary user:
 * its first `create_sandbox` waits for a real build of the template `base`, and a program inside
 * fetches a package from the index that this machine uses. The user needs to be allowed to open
 * `/dev/net/tun`, as on most machines.
 */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { openRawStdio } from "../test/support/mcp/raw-stdio.ts";
import { openOrdinaryUser } from "../test/support/ordinary-user.ts";
import { OFFLINE, PROGRAM, startProgram } from "../test/support/program.ts";
import { makeTempFolder } from "../test/support/temp-folder.ts";

const MAX_FIRST_MS = 60_000;
const MAX_SECOND_MS = 1_000;
const REPLY_LIMIT_MS = 300_000;
const DOWNLOAD =
  "cd /tmp && pip download --no-deps --no-cache-dir six 2>&1 | tail -n 2 && ls six-*";

/** As root the template `host` would be used until `base` is built. */
const ENVIRONMENT = { ...networkSettings(), SANDBOX_MCP_ALLOW_HOST_TEMPLATE: "false" };

interface Person {
  readonly name: string;
  readonly home: string;
  readonly program: readonly [string, ...string[]];
}

interface Figures {
  readonly name: string;
  readonly firstMs: number;
  readonly secondMs: number;
  /** What the package index sent, as `ls` names it. */
  readonly downloaded: string;
}

/** The exit code: 0 when both keep the limits. */
export async function runFirstCreate(): Promise<number> {
  await using folder = await makeTempFolder();
  await using user = await openOrdinaryUser({ ids: true });
  const empty = join(user.home, "empty");
  const people: readonly Person[] = [
    { name: "root", home: join(folder.path, "home"), program: [process.execPath, PROGRAM] },
    { name: "ordinary user", home: empty, program: user.program },
  ];
  const faults: string[] = [];
  for (const person of people) {
    const figures = await measurePerson(person);
    process.stdout.write(`${JSON.stringify(figures)}\n`);
    faults.push(...judge(figures));
  }
  for (const fault of faults) process.stdout.write(`first-create: ${fault}\n`);
  return faults.length === 0 ? 0 : 1;
}

function judge({ name, firstMs, secondMs, downloaded }: Figures): string[] {
  return [
    ...(firstMs <= MAX_FIRST_MS ? [] : [`${name}: the first create took ${firstMs} ms`]),
    ...(secondMs <= MAX_SECOND_MS ? [] : [`${name}: the second create took ${secondMs} ms`]),
    ...(downloaded.endsWith(".whl") ? [] : [`${name}: pip download: ${downloaded}`]),
  ];
}

async function measurePerson({ name, home, program: command }: Person): Promise<Figures> {
  const startedAt = performance.now();
  await using program = startProgram(["stdio", "--home", home], ENVIRONMENT, [
    "env",
    ...Object.keys(OFFLINE).flatMap((variable) => ["-u", variable]),
    ...command,
  ]);
  const raw = openRawStdio(program.child.stdin!, program.stdout, REPLY_LIMIT_MS);
  const call = async (tool: string, input: object): Promise<string> => {
    const reply = await raw.request("tools/call", { name: tool, arguments: input });
    const text = JSON.stringify(reply);
    if (reply["isError"] === true) throw new Error(`${tool}: ${text}\n${program.stderr()}`);
    return text;
  };
  await raw.initialize();
  const first = await createBase(call);
  const firstMs = Math.round(performance.now() - startedAt);
  const secondAt = performance.now();
  await createBase(call);
  const secondMs = Math.round(performance.now() - secondAt);
  const downloaded = await call("run_process", { sandbox_id: first, cmd: DOWNLOAD });
  program.child.stdin?.end();
  await program.exited();
  await rm(home, { recursive: true, force: true });
  return {
    name,
    firstMs,
    secondMs,
    downloaded: /six-[\w.-]+\.whl/.exec(downloaded)?.[0] ?? downloaded,
  };
}

/** A create whose bounded wait is over says to call again. */
async function createBase(call: (tool: string, input: object) => Promise<string>): Promise<string> {
  for (;;) {
    try {
      const made = await call("create_sandbox", { template: "base" });
      return /sandbox_id: (\w+)/.exec(made)?.[1] ?? "";
    } catch (error) {
      if (!String(error).includes("Call create_sandbox again")) throw error;
    }
  }
}

/** What a machine says about its way to the network: proxies, certificates, package indexes. */
function networkSettings(): Record<string, string> {
  const pattern = /^(?:.*_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|PIP_.*)$/i;
  const settings: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && pattern.test(name)) settings[name] = value;
  }
  return settings;
}
