/**
 * R12: what root and users inside send to the daemon and its helpers opens no port, writes no file,
 * brings no token to light and changes nothing of what the daemon runs; it serves again afterwards.
 */

import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startRange, type AttackRange } from "../../support/hostile/attack-range.ts";
import {
  chooseSignals,
  daemonsIn,
  FIND_DAEMON,
  openSignalTarget,
  SIGNALS,
  type SignalTarget,
} from "../../support/hostile/signal-target.ts";
import { createRandom } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { attackPlaces, hasOwnKernel, IS_WHOLE_RUN } from "../../support/runtimes.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const { SIGUSR1, SIGSEGV, SIGKILL, SIGCONT } = constants.signals;
/** The pids of processes by a pattern of their command lines; the shell itself has another one. */
const FIND: Readonly<Record<string, string>> = {
  "the daemon": FIND_DAEMON,
  "process 1": "echo 1",
  "the helper of attributes": `pgrep -f '[a]ttributes[.]pl'`,
  "the relay of a terminal": `pgrep -f '[t]erminal[.]pl'`,
};
const DAEMON_FOLDER = "/run/sandbox-mcp/";
const PLACES = attackPlaces().map((place, index) => ({
  ...place,
  takesAll: IS_WHOLE_RUN && index === 0,
}));

describe.each(PLACES)("on $name", (place) => {
  let range: AttackRange;
  let sandbox: Sandbox;
  let target: SignalTarget;
  const random = createRandom(SEED);

  beforeAll(async () => {
    range = await startRange(place);
    ({ sandbox } = range);
    target = await openSignalTarget(range);
  });

  afterAll(async () => range[Symbol.asyncDispose]());

  /** Files that the daemon has mapped and that are not of its own folder; those must be there too. */
  const foreignCode = async () => {
    const maps = (await daemonMaps()).split("\n");
    const paths = maps.map((line) => line.split(/\s+/).slice(5).join(" "));
    expect(paths.filter((path) => path.startsWith(DAEMON_FOLDER)).length).toBeGreaterThan(1);
    return [...new Set(paths.filter((path) => path.includes("planted")))];
  };

  /** The machine sees no process of another kernel, whose root may look at the daemon in turn. */
  const daemonMaps = async () => {
    if (hasOwnKernel(place.runtime)) return target.run(`cat /proc/$(${FIND_DAEMON})/maps`);
    const namespace = (await target.run("readlink /proc/self/ns/pid")).trim();
    const found = await daemonsIn(namespace);
    const maps = found.map(async (pid) => readFile(`/proc/${pid}/maps`, "latin1"));
    return (await Promise.all(maps)).join("");
  };

  /** Has the helper of attributes started. */
  const ask = async () => (await sandbox.files.getInfo("/etc/passwd")).name;

  test(`E42 signals to the daemon, seed ${SEED}`, { timeout: 240_000 }, async (context) => {
    const ports = await target.listening();
    const chosen = chooseSignals(random, place.takesAll);
    for (const signal of chosen) {
      // In a call, or idle.
      const call = random.once(2)
        ? sandbox.commands.run("sleep 0.2; echo", { user: "root" }).catch(() => undefined)
        : undefined;
      await target.sendInside(signal, FIND["the daemon"] ?? "");
      // On a busy machine the sender may come later than its call is over.
      await target.sent();
      await target.serves();
      expect(await target.listening(), `ports after signal ${signal}`).toBe(ports);
      await call;
    }
    await target.expectNothingNew(ports);
    expect(await foreignCode()).toEqual([]);
    tellCells(context, chosen.length);
  });

  test("E42 signals of a user reach neither the daemon nor process 1", async (context) => {
    const before = await target.run(`${FIND["the daemon"]}`);
    for (const pids of ["1", before.trim()]) {
      const loop = `for n in $(seq 1 64); do kill -$n ${pids} && echo $n; done 2>/dev/null; true`;
      // The kernel lets everybody send SIGCONT within a session.
      expect(["", `${SIGCONT}\n`]).toContain(await target.run(loop, "user"));
    }
    // No process 1 takes a signal of its own namespace that it has no handler for, also of root.
    // In a kernel of its own root ends it, and the sandbox, by SIGKILL, and stops it by SIGSTOP.
    const numbers = hasOwnKernel(place.runtime) ? "seq 1 64 | grep -vxE '9|19'" : "seq 1 64";
    await target.run(`for n in $(${numbers}); do kill -$n 1; done; true`);
    await target.serves();
    expect(await target.run(`${FIND["the daemon"]}`)).toBe(before);
    // Nor does one that it does catch end it with the next daemon.
    await target.sendInside(SIGKILL, FIND["the daemon"] ?? "");
    await target.serves();
    tellCells(context, 3 * SIGNALS.length);
  });

  test(
    `E42 signals to the daemon's helpers, seed ${SEED}`,
    { timeout: 240_000 },
    async (context) => {
      const ports = await target.listening();
      const chosen = chooseSignals(random, place.takesAll);
      for (const signal of chosen) {
        expect(await ask()).toBe("passwd");
        await target.sendInside(signal, FIND["the helper of attributes"] ?? "");
        expect(await ask()).toBe("passwd");
        const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined });
        expect(await target.run(FIND["the relay of a terminal"] ?? "")).toMatch(/^\d+\n/);
        await target.sendInside(signal, FIND["the relay of a terminal"] ?? "");
        await target.serves();
        await terminal.kill().catch(() => undefined);
      }
      await target.expectNothingNew(ports);
      tellCells(context, 2 * chosen.length);
    },
  );

  test("E42 a port that a signal could open is closed at the gateway", async () => {
    await target.sendInside(SIGUSR1, FIND["the daemon"] ?? "");
    await target.serves();
    const host = { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": "9229" };
    const reply = await fetch(`${range.serve.url}/json`, { headers: host });
    expect(reply.status).toBe(502);
  });

  test("E42 a daemon that starts anew loads nothing that root named in /etc", async () => {
    await target.run(PLANT);
    expect(await target.run("cat /proc/self/maps"), "control: others load it").toContain("planted");
    expect(await target.run(CONFIGURED), "control: OpenSSL reads it").toMatch(/CSPRNG|planted/);
    for (const signal of [SIGKILL, SIGUSR1, SIGSEGV]) {
      await target.sendInside(signal, FIND["the daemon"] ?? "");
      await target.serves();
    }
    expect(await foreignCode()).toEqual([]);
    await target.run("rm /etc/ld.so.preload /etc/ssl/openssl.cnf");
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
