/**
 * R12: what root and users inside send to the daemon and its helpers opens no port, writes no file,
 * brings no token to light and changes nothing of what the daemon runs; it serves again afterwards.
 */

import { readdir, readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sandboxSchema } from "../../../src/wire/control.ts";
import { startRange, type AttackRange } from "../../support/attack-range.ts";
import { tellCells } from "../../support/cells.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { attackPlaces, IS_WHOLE_RUN } from "../../support/runtimes.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const SIGNALS = Array.from({ length: 64 }, (_, index) => index + 1);
const { SIGUSR1, SIGUSR2, SIGQUIT, SIGABRT, SIGSEGV, SIGSTOP, SIGKILL, SIGCONT } =
  constants.signals;
/** Those by which programs dump, report or stop, each time; all others on one runtime of a whole run. */
const TELLING = [SIGUSR1, SIGUSR2, SIGQUIT, SIGABRT, SIGSEGV, SIGSTOP, SIGKILL];
const RANDOM_ONES = IS_WHOLE_RUN ? 12 : 3;
/** A daemon that was ended starts anew, and its service tells it again within 2 s. */
const RETURN_LIMIT_MS = 30_000;
/** The pids of processes by a pattern of their command lines; the shell itself has another one. */
const FIND: Readonly<Record<string, string>> = {
  "the daemon": `pgrep -f '[s]tart\\.cjs'`,
  "process 1": "echo 1",
  "the helper of attributes": `pgrep -f '[u]ser\\.e2b'`,
  "the relay of a terminal": `pgrep -f '[T]IOCSCTTY|[p]tmx'`,
};
/** Listening sockets, as the kernel shows them. */
const LISTENING = `awk '$4 == "0A" { print $2 }' /proc/net/tcp /proc/net/tcp6 | sort`;
const NEW_FILES = `find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run/e2b \\) -prune -o -type f -newer /opt/mark -print`;

const PLACES = attackPlaces().map((place, index) => ({
  ...place,
  takesAll: IS_WHOLE_RUN && index === 0,
}));

describe.each(PLACES)("on $name", (place) => {
  let range: AttackRange;
  let sandbox: Sandbox;
  const random = createRandom(SEED);

  beforeAll(async () => {
    range = await startRange(place);
    ({ sandbox } = range);
    await run("touch /opt/mark");
  });

  afterAll(async () => range[Symbol.asyncDispose]());

  const run = async (command: string, user = "root") =>
    (await sandbox.commands.run(command, { user })).stdout;

  /** Has the helper of attributes started. */
  const ask = async () => (await sandbox.files.getInfo("/etc/passwd")).name;

  /** Resolves when the daemon answers, after whatever was done to it. */
  const serves = async () =>
    expect
      .poll(async () => run("echo serves").catch(String), {
        timeout: RETURN_LIMIT_MS,
        interval: 20,
      })
      .toBe("serves\n");

  /** What stopped goes on shortly after; the shell that sends it does not need the daemon. */
  const send = async (signal: number, pids: string, user = "root") => {
    const script = `for pid in $(${pids}); do kill -${signal} $pid; done; sleep 0.05; for pid in $(${pids}); do kill -CONT $pid; done`;
    const words = `setsid sh -c ${quote(script)} >/dev/null 2>&1 &`;
    await run(`${words} sleep 0.1`, user).catch(() => undefined);
  };

  const expectNothingNew = async (ports: string) => {
    expect(await run(LISTENING)).toBe(ports);
    const token = await tokenOf(range, sandbox);
    expect(token).toMatch(/^[0-9a-f]{32,}$/);
    expect((await run(NEW_FILES)).split("\n").filter((path) => !isExpected(path))).toEqual([]);
    const found = await run(`grep -rlsF ${token} /tmp /var /run /opt /root /home /dev/shm || true`);
    expect(found).toBe("");
  };

  test(`E42 signals to the daemon, seed ${SEED}`, { timeout: 240_000 }, async (context) => {
    const ports = await run(LISTENING);
    const chosen = choose(random, place.takesAll);
    for (const signal of chosen) {
      // In a call, or idle.
      const call = random.once(2)
        ? sandbox.commands.run("sleep 0.2; echo", { user: "root" }).catch(() => undefined)
        : undefined;
      await send(signal, FIND["the daemon"] ?? "");
      await serves();
      expect(await run(LISTENING), `ports after signal ${signal}`).toBe(ports);
      await call;
    }
    await expectNothingNew(ports);
    expect(await foreignCode()).toEqual([]);
    tellCells(context, chosen.length);
  });

  test("E42 signals of a user reach neither the daemon nor process 1", async (context) => {
    const before = await run(`${FIND["the daemon"]}`);
    for (const pids of ["1", before.trim()]) {
      const loop = `for n in $(seq 1 64); do kill -$n ${pids} && echo $n; done 2>/dev/null; true`;
      // The kernel lets everybody send SIGCONT within a session.
      expect(["", `${SIGCONT}\n`]).toContain(await run(loop, "user"));
    }
    // No process 1 takes a signal of its own namespace that it has no handler for, also of root.
    await run(`for n in $(seq 1 64); do kill -$n 1; done; true`);
    await serves();
    expect(await run(`${FIND["the daemon"]}`)).toBe(before);
    // Nor does one that it does catch end it with the next daemon.
    await send(SIGKILL, FIND["the daemon"] ?? "");
    await serves();
    tellCells(context, 3 * SIGNALS.length);
  });

  test(
    `E42 signals to the daemon's helpers, seed ${SEED}`,
    { timeout: 240_000 },
    async (context) => {
      const ports = await run(LISTENING);
      const chosen = choose(random, place.takesAll);
      for (const signal of chosen) {
        expect(await ask()).toBe("passwd");
        await send(signal, FIND["the helper of attributes"] ?? "");
        expect(await ask()).toBe("passwd");
        const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
        expect(await run(FIND["the relay of a terminal"] ?? "")).toMatch(/^\d+\n/);
        await send(signal, FIND["the relay of a terminal"] ?? "");
        await serves();
        await terminal.kill().catch(() => undefined);
      }
      await expectNothingNew(ports);
      tellCells(context, 2 * chosen.length);
    },
  );

  test("E42 a port that a signal could open is closed at the gateway", async () => {
    await send(SIGUSR1, FIND["the daemon"] ?? "");
    await serves();
    const host = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "9229" };
    const reply = await fetch(`${range.serve.url}/json`, { headers: host });
    expect(reply.status).toBe(502);
  });

  test("E42 a daemon that starts anew loads nothing that root named in /etc", async () => {
    await run(PLANT);
    expect(await run("cat /proc/self/maps"), "control: others load it").toContain("planted");
    expect(await run(CONFIGURED), "control: OpenSSL reads it").toMatch(/CSPRNG|planted/);
    for (const signal of [SIGKILL, SIGUSR1, SIGSEGV]) {
      await send(signal, FIND["the daemon"] ?? "");
      await serves();
    }
    expect(await foreignCode()).toEqual([]);
    await run("rm /etc/ld.so.preload /etc/ssl/openssl.cnf");
  });
});

/** A library for each program, and one for each that reads OpenSSL's configuration. */
const PLANT = `
library=$(ls /lib/*-linux-gnu/libdl.so.2 /usr/lib/*-linux-gnu/libdl.so.2 2>/dev/null | head -1)
cp $library /opt/planted-preload.so; cp $library /opt/planted-provider.so; mkdir -p /etc/ssl
printf '%s\\n' 'nodejs_conf = a' '[a]' 'providers = b' '[b]' 'c = d' '[d]' \\
  'module = /opt/planted-provider.so' 'activate = 1' > /etc/ssl/openssl.cnf
echo /opt/planted-preload.so > /etc/ld.so.preload`;
const CONFIGURED = `cd /run/sandbox-mcp; ./loader --library-path lib ./node -p 1 2>&1 | head -5`;

function choose(random: Random, takesAll: boolean): readonly number[] {
  if (takesAll) return SIGNALS;
  const rest = SIGNALS.filter((signal) => !TELLING.includes(signal));
  return [...TELLING, ...Array.from({ length: RANDOM_ONES }, () => random.pick(rest))];
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Caches that shells and terminals keep by themselves. */
function isExpected(path: string): boolean {
  return path === "" || /^\/(?:var\/log|var\/lib\/systemd|opt\/(?:attacks|planted))/.test(path);
}

async function tokenOf({ serve }: AttackRange, { sandboxId }: Sandbox): Promise<string> {
  const reply = await fetch(`${serve.url}/sandboxes/${sandboxId}`, {
    headers: { "x-api-key": serve.apiKey },
  });
  return String(sandboxSchema.parse(await reply.json()).envdAccessToken);
}

/** Files that daemons on this machine have mapped and that are not of their own folder. */
async function foreignCode(): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "");
    if (!command.includes("/run/sandbox-mcp/start.cjs")) continue;
    if (command.includes("/sh\0")) continue;
    const maps = await readFile(`/proc/${pid}/maps`, "latin1").catch(() => "");
    const paths = maps.split("\n").map((line) => line.split(/\s+/).slice(5).join(" "));
    found.push(...paths.filter((path) => path.startsWith("/") && path.includes("planted")));
  }
  return [...new Set(found)];
}
