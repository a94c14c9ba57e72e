/** Terminals of a real daemon: what a person at a shell would notice. */

import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  Process,
  type ProcessEvent,
  type StreamInputRequestSchema,
} from "../../../src/gen/process/process_pb.ts";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { ownSleep } from "../../support/daemon/own-sleep.ts";

const SIZE = { cols: 80, rows: 24 };
/** A shell without a prompt or files of its own, so that what it shows is what was asked. */
const SHELL = { cmd: "/bin/bash", args: ["--norc", "--noprofile", "--noediting", "-i"] };
const QUIET = {
  PS1: "",
  PS2: "",
  TERM: "xterm-256color",
  HISTFILE: "/dev/null",
  INPUTRC: "/dev/null",
};

interface Session {
  readonly pid: number;
  /** What was shown so far. */
  readonly screen: () => string;
  type(text: string): Promise<unknown>;
  /** Everything until the end, once that came. */
  readonly ended: Promise<Awaited<ReturnType<typeof collect>>>;
  leave(): void;
}

/** Starts a shell, or joins one by its pid, and keeps what it shows. */
async function open(
  daemon: TestDaemon,
  from: { readonly pid: number } | { readonly envs?: Record<string, string>; size?: object } = {},
): Promise<Session> {
  const controller = new AbortController();
  const { signal } = controller;
  const stream =
    "pid" in from
      ? daemon.processes.connect({ process: byPid(from.pid) }, { signal })
      : daemon.processes.start(
          {
            process: { ...SHELL, envs: { ...QUIET, ...from.envs } },
            pty: { size: from.size ?? SIZE },
            tag: "shell",
          },
          { signal },
        );
  let screen = "";
  const started = Promise.withResolvers<number>();
  async function* watched(): AsyncGenerator<{ event?: ProcessEvent | undefined }> {
    for await (const message of stream) {
      const event = message.event?.event;
      if (event?.case === "start") started.resolve(event.value.pid);
      if (event?.case === "data") screen += Buffer.from(event.value.output.value ?? []).toString();
      yield message;
    }
  }
  const ended = collect(watched());
  ended.catch((error: unknown) => started.reject(error));
  const pid = await started.promise;
  return {
    pid,
    screen: () => screen,
    type: async (text) => daemon.processes.sendInput({ process: byPid(pid), input: typed(text) }),
    ended,
    leave: () => controller.abort(),
  };
}

function byPid(pid: number) {
  return { selector: { case: "pid", value: pid } } as const;
}

function typed(text: string) {
  return { input: { case: "pty", value: Buffer.from(text) } } as const;
}

test("a shell on a terminal: size, TERM, one stream of output, its exit code", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon, { envs: { WORD: "from the caller" } });
  await session.type("tty && stty size; echo $TERM-$WORD; echo problem >&2; exit 7\n");
  const result = await session.ended;
  expect([result.kinds, result.stdout, result.stderr, result.end]).toEqual([
    ["start", "data", "end"],
    "",
    "",
    { exitCode: 7, exited: true, status: "exit status 7", error: "exit status 7" },
  ]);
  expect(result.pty).toMatch(/\/dev\/pts\/\d+\r\n24 80\r\n/);
  expect(result.pty).toContain("xterm-256color-from the caller\r\nproblem\r\n");
});

test("what runs on a terminal is a session of its own, and no descriptor comes with it", async () => {
  await using daemon = await startTestDaemon();
  const script = "ps -o pid=,sid=,tpgid= -p $$; echo; ls /proc/$$/fd | tr '\\n' ' '; env";
  const result = await collect(
    daemon.processes.start({
      process: {
        cmd: "/bin/sh",
        args: ["-c", script],
        envs: { PERL5OPT: "-Mnothing", A: "x=y\nz" },
      },
      pty: { size: SIZE },
    }),
  );
  const [ids = "", ...rest] = result.pty.split("\r\n");
  expect(ids.trim().split(/\s+/).map(Number)).toEqual([result.pid, result.pid, result.pid]);
  expect(rest.join("\n")).toMatch(/0 1 2 /);
  expect(rest.join("\n")).toContain("A=x=y\nz");
  expect(rest.join("\n")).not.toContain("LC_ALL");
});

test("a terminal may have no size, and gets another one while it runs", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon, { size: {} });
  await session.type("stty size\n");
  await expect.poll(session.screen).toContain("\r\n0 0\r\n");
  const process = byPid(session.pid);
  for (const [cols, rows, shown] of [
    [100, 30, "30 100"],
    [65_536 + 7, 9, "9 7"],
  ] as const) {
    await daemon.processes.update({ process, pty: { size: { cols, rows } } });
    await session.type("stty size\n");
    await expect.poll(session.screen).toContain(`\r\n${shown}\r\n`);
  }
  await daemon.processes.update({ process });
  await session.type("exit\n");
  expect((await session.ended).end.exitCode).toBe(0);
});

test("a change of size is told to what runs in front", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon);
  const job =
    "trap 'echo new:\\$(stty size); exit' WINCH; echo rea''dy; while :; do sleep 0.05; done";
  await session.type(`sh -c "${job}"\n`);
  await expect.poll(session.screen).toContain("ready");
  await daemon.processes.update({
    process: byPid(session.pid),
    pty: { size: { cols: 111, rows: 33 } },
  });
  await expect.poll(session.screen).toContain("new:33 111");
  await session.type("exit\n");
  await session.ended;
});

test("keys act on the job in front, and the shell goes on", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon);
  await session.type("sh -c 'echo one; exec sleep 600' | cat\n");
  await expect.poll(session.screen).toContain("\r\none\r\n");
  await session.type("\x03echo after:$?\n");
  await expect.poll(session.screen).toContain("after:130");
  await session.type("sh -c 'echo two; exec sleep 601'\n");
  await expect.poll(session.screen).toContain("\r\ntwo\r\n");
  await session.type("\x1a");
  await expect.poll(session.screen).toContain("Stopped");
  // `wait` alone waits for no job that has stopped, and the shell does not end while it has one.
  await session.type("kill -9 %1; wait -f %1; echo do''ne\n");
  await expect.poll(session.screen).toContain("done");
  await session.type("\x04");
  expect((await session.ended).end.exitCode).toBe(0);
});

test("who leaves and comes back finds the same shell", async () => {
  await using daemon = await startTestDaemon();
  const first = await open(daemon);
  await first.type("x=kept; echo fir''st\n");
  await expect.poll(first.screen).toContain("first");
  first.leave();
  await faultOf(first.ended);
  const second = await open(daemon, { pid: first.pid });
  await second.type("echo again:$x; exit 3\n");
  const result = await second.ended;
  expect([second.pid, result.end.exitCode]).toEqual([first.pid, 3]);
  expect(result.pty).toContain("again:kept");
});

test("a kill ends the shell at once, and the hang-up what ran on its terminal", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon);
  await session.type("sleep 602 & echo job:$!\n");
  await expect.poll(session.screen).toMatch(/job:\d+/);
  const job = /job:(\d+)/.exec(session.screen())?.[1];
  await daemon.processes.sendSignal({ process: byPid(session.pid), signal: 9 });
  const gone = await runScript(daemon.processes, `kill -0 ${session.pid} 2>/dev/null; echo $?`);
  expect([gone.stdout, (await session.ended).end]).toEqual([
    "1\n",
    { exitCode: -1, exited: false, status: "signal: killed", error: "signal: killed" },
  ]);
  expect(await faultOf(daemon.processes.update({ process: byPid(session.pid) }))).toEqual([
    "NotFound",
    `process with pid ${session.pid} not found`,
  ]);
  // A job in the background is not of the group that the kernel tells of the end.
  await runScript(daemon.processes, `kill -9 ${job ?? 0}`);
});

test("the front job of a terminal ends when its terminal does", async () => {
  const sleep = ownSleep(603);
  await using daemon = await startTestDaemon();
  const stream = daemon.processes.start({
    process: { cmd: "/bin/sh", args: ["-c", `echo here; ${sleep}; echo never`] },
    pty: { size: SIZE },
    tag: "front",
  });
  const iterator = stream[Symbol.asyncIterator]();
  await iterator.next();
  await iterator.next();
  const byTag = { selector: { case: "tag", value: "front" } } as const;
  await daemon.processes.sendSignal({ process: byTag, signal: 9 });
  await expect
    .poll(async () => (await runScript(daemon.processes, `pgrep -fx '${sleep}'; true`)).stdout)
    .toBe("");
});

test("input and calls that belong to the other kind of process are refused", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon);
  const process = byPid(session.pid);
  const input = { input: { case: "stdin", value: Buffer.from("x") } } as const;
  expect([
    await faultOf(daemon.processes.sendInput({ process, input })),
    await faultOf(daemon.processes.closeStdin({ process })),
  ]).toEqual([
    [
      "Internal",
      "error writing to stdin: tty assigned to process — input should be written to the pty, not the stdin",
    ],
    [
      "Unknown",
      "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead",
    ],
  ]);
  async function* items(): AsyncGenerator<MessageInitShape<typeof StreamInputRequestSchema>> {
    yield { event: { case: "start", value: { process } } };
    for (const text of ["echo st", "reamed; ", "exit 5\n"]) {
      yield { event: { case: "data", value: { input: typed(text) } } };
      yield { event: { case: "keepalive", value: {} } };
    }
  }
  await daemon.processes.streamInput(items());
  const result = await session.ended;
  expect([result.end.exitCode, result.pty.includes("\r\nstreamed\r\n")]).toEqual([5, true]);
});

test.for([
  ["no-such-command-here", 127, "sh: no-such-command-here: not found\r\n"],
  ["/etc/passwd", 126, "sh: /etc/passwd: Permission denied\r\n"],
  ["", 127, "sh: : not found\r\n"],
] as const)("the command %j on a terminal ends with %i", async ([cmd, exitCode, text]) => {
  await using daemon = await startTestDaemon();
  const result = await collect(
    daemon.processes.start({ process: { cmd }, pty: { size: SIZE }, stdin: false }),
  );
  expect([result.kinds, result.end.exitCode, result.pty]).toEqual([
    ["start", "data", "end"],
    exitCode,
    text,
  ]);
});

test("a folder that is gone is told before anything starts", async () => {
  await using daemon = await startTestDaemon();
  const start = daemon.processes.start({
    process: { cmd: "pwd", cwd: "/no-such-folder" },
    pty: { size: SIZE },
  });
  expect(await faultOf(collect(start))).toEqual([
    "InvalidArgument",
    "cwd '/no-such-folder' does not exist",
  ]);
});

test("a lot of output arrives whole and in order, in pieces of at most 16 KiB", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  let text = "";
  let largest = 0;
  const stream = daemon.processes.start({
    process: { cmd: "/bin/sh", args: ["-c", "seq 300000"] },
    pty: { size: SIZE },
  });
  for await (const { event } of stream) {
    if (event?.event.case !== "data") continue;
    expect(event.event.value.output.case).toBe("pty");
    const bytes = event.event.value.output.value ?? new Uint8Array();
    largest = Math.max(largest, bytes.length);
    text += Buffer.from(bytes).toString("latin1");
  }
  const expected = Array.from({ length: 300_000 }, (_, index) => `${index + 1}\r\n`).join("");
  expect([text === expected, largest <= 16_384]).toEqual([true, true]);
});

test("a reader that stops holds the terminal, not the daemon, and loses nothing", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const processes = createClient(Process, daemon.transport({ useBinaryFormat: true }));
  const stream = processes.start({
    process: { cmd: "/bin/sh", args: ["-c", "stty -onlcr; seq 1000000"] },
    pty: { size: SIZE },
  });
  const iterator = stream[Symbol.asyncIterator]();
  await iterator.next();
  // Others are served meanwhile.
  expect((await runScript(daemon.processes, "echo fine")).stdout).toBe("fine\n");
  const rest = await collect({ [Symbol.asyncIterator]: () => iterator });
  expect([rest.end.exitCode, rest.pty.length, rest.pty.endsWith("\n1000000\n")]).toEqual([
    0,
    6_888_896,
    true,
  ]);
});

test("the deadline of a start ends a terminal too", async () => {
  await using daemon = await startTestDaemon();
  const call = { process: SHELL, pty: { size: SIZE }, tag: "late" };
  const [code] = await faultOf(collect(daemon.processes.start(call, { timeoutMs: 700 })));
  expect(code).toBe("DeadlineExceeded");
  await expect.poll(async () => (await daemon.processes.list({})).processes).toEqual([]);
  const byTag = { selector: { case: "tag", value: "late" } } as const;
  const ended = await collect(daemon.processes.connect({ process: byTag }));
  expect(ended.end.status).toBe("signal: killed");
});

test("a call that killed a terminal is answered when its process is gone", async () => {
  await using daemon = await startTestDaemon();
  const session = await open(daemon);
  // What reaps it is held back: a killed process is found until then.
  const [, relay = ""] =
    /^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${session.pid}/status`, "utf8")) ?? [];
  process.kill(Number(relay), "SIGSTOP");
  const killed = daemon.processes.sendSignal({ process: byPid(session.pid), signal: 9 });
  const isAnswered = await Promise.race([killed.then(() => true), delay(200, false)]);
  process.kill(Number(relay), "SIGCONT");
  await killed;
  expect(isAnswered).toBe(false);
  expect(() => process.kill(session.pid, 0)).toThrow("ESRCH");
  expect((await session.ended).end.status).toBe("signal: killed");
});

test("a daemon that ends hangs its terminals up", async () => {
  let pid = 0;
  {
    await using daemon = await startTestDaemon();
    const session = await open(daemon);
    pid = session.pid;
    session.ended.catch(() => undefined);
  }
  await expect
    .poll(() => {
      try {
        return process.kill(pid, 0);
      } catch {
        return "gone";
      }
    })
    .toBe("gone");
});
