/** Processes of a real daemon, over both codecs. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import { expect, test } from "vitest";
import {
  Process,
  type ProcessEvent,
  type Signal,
  type StartRequestSchema,
  type StreamInputRequestSchema,
} from "../../../src/gen/process/process_pb.ts";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";

/** A number that the wire's list of signals does not have. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what no client of ours could send
const INTERRUPT = 2 as Signal;

type StartInit = MessageInitShape<typeof StartRequestSchema>;
type Item = MessageInitShape<typeof StreamInputRequestSchema>;

interface Reply {
  readonly event?: ProcessEvent | undefined;
}

type Selection =
  | { readonly case: "pid"; readonly value: number }
  | { readonly case: "tag"; readonly value: string };

function startItem(selector: Selection): Item {
  return { event: { case: "start", value: { process: { selector } } } };
}

function dataItem(text: string): Item {
  const input = { case: "stdin", value: Buffer.from(text) } as const;
  return { event: { case: "data", value: { input: { input } } } };
}

async function* only(item: Item): AsyncGenerator<Item> {
  yield item;
}

/** Starts a script and returns its pid with the rest of the stream. */
async function begin(daemon: TestDaemon, script: string, more: object = {}) {
  const controller = new AbortController();
  const stream = daemon.processes.start(
    { process: { cmd: "/bin/sh", args: ["-c", script] }, ...more },
    { signal: controller.signal },
  );
  const iterator: AsyncIterator<Reply> = stream[Symbol.asyncIterator]();
  const first = await iterator.next();
  const event = first.done === true ? undefined : first.value.event?.event;
  const pid = event?.case === "start" ? event.value.pid : 0;
  return { pid, controller, rest: { [Symbol.asyncIterator]: () => iterator } };
}

/** The same stream; once the text has come on stdout, the work is done. */
async function* untilSeen(
  stream: AsyncIterable<Reply>,
  text: string,
  work: () => Promise<void>,
): AsyncGenerator<Reply> {
  let seen = "";
  for await (const reply of stream) {
    const event = reply.event?.event;
    const output = event?.case === "data" ? event.value.output : undefined;
    const before = seen.includes(text);
    if (output?.case === "stdout") seen += Buffer.from(output.value).toString();
    if (!before && seen.includes(text)) await work();
    yield reply;
  }
}

test.for([false, true])("output, exit code and order (binary: %s)", async (useBinaryFormat) => {
  await using daemon = await startTestDaemon({ useBinaryFormat });
  const result = await runScript(daemon.processes, "echo out; echo err >&2; exit 3");
  expect({ ...result, hasPid: result.pid > 1, pid: 0 }).toEqual({
    pid: 0,
    hasPid: true,
    kinds: ["start", "data", "end"],
    stdout: "out\n",
    stderr: "err\n",
    pty: "",
    end: { exitCode: 3, exited: true, status: "exit status 3", error: "exit status 3" },
  });
});

test("the environment holds nothing but what the wire lists", async () => {
  await using daemon = await startTestDaemon({
    init: { envVars: { GLOBAL: "g", BOTH: "g" }, timestamp: "2026-01-01T00:00:00Z" },
  });
  const { stdout } = await collect(
    daemon.processes.start({ process: { cmd: "env", envs: { OWN: "o", BOTH: "o", USER: "x" } } }),
  );
  const variables = stdout
    .trim()
    .split("\n")
    .filter((line) => !/^(?:PWD|OLDPWD|SHLVL|_)=/.test(line));
  expect(variables.toSorted()).toEqual([
    "BOTH=o",
    "GLOBAL=g",
    "HOME=/root",
    "LOGNAME=root",
    "OWN=o",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "USER=x",
  ]);
});

test("arguments arrive as they are, and no socket of the daemon with them", async () => {
  await using daemon = await startTestDaemon();
  const words = ["$HOME `id` \"'", "a\nb", "", "-n"];
  const printed = await collect(
    daemon.processes.start({ process: { cmd: "printf", args: ["<%s>", ...words] } }),
  );
  const descriptors = await runScript(daemon.processes, "readlink /proc/$$/fd/3 /proc/$$/fd/4");
  expect([printed.stdout, descriptors.stdout]).toEqual([
    words.map((word) => `<${word}>`).join(""),
    "",
  ]);
});

test.for([
  ["no-such-command-here", 127],
  ["/etc/passwd", 126],
  ["", 127],
] as const)("the command %j ends with %i, not with an error", async ([cmd, exitCode]) => {
  await using daemon = await startTestDaemon();
  const result = await collect(daemon.processes.start({ process: { cmd } }));
  expect([result.kinds, result.end.exitCode, result.stderr !== ""]).toEqual([
    ["start", "data", "end"],
    exitCode,
    true,
  ]);
});

test("the folder of a process", async () => {
  await using daemon = await startTestDaemon();
  await mkdir(join(daemon.folder, "work"));
  const cwd = join(daemon.folder, "work");
  const at = async (folder: string) =>
    collect(daemon.processes.start({ process: { cmd: "pwd", cwd: folder } }));
  expect((await at(cwd)).stdout).toBe(`${cwd}\n`);
  expect((await at("~")).stdout).toBe("/root\n");
  expect(await faultOf(at(`${cwd}/gone`))).toEqual([
    "InvalidArgument",
    `cwd '${cwd}/gone' does not exist`,
  ]);
  expect(await faultOf(at("/etc/passwd"))).toEqual([
    "InvalidArgument",
    "error starting process 'pwd': fork/exec /bin/sh: not a directory",
  ]);
});

const REFUSED: readonly (readonly [StartInit, string])[] = [
  [{ process: { cmd: "a\0b" }, pty: { size: { cols: 80, rows: 24 } } }, "InvalidArgument"],
  [{ process: { cmd: "a\0b" } }, "InvalidArgument"],
  [{ process: { cmd: "true", envs: { A: "x\0" } } }, "InvalidArgument"],
  [{ process: { cmd: "true", cwd: "/\0" } }, "InvalidArgument"],
  [{ process: { cmd: "true", args: ["x".repeat(200_000)] } }, "InvalidArgument"],
  [{}, "InvalidArgument"],
];

test.for(REFUSED)("start %#: refused", async ([request, code]) => {
  await using daemon = await startTestDaemon();
  const [found] = await faultOf(collect(daemon.processes.start(request)));
  expect(found).toBe(code);
});

test("the standard streams are pipes that can be opened by path", async () => {
  await using daemon = await startTestDaemon();
  const script =
    "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin; test -p /dev/stdin";
  const { pid, rest } = await begin(daemon, script, { stdin: true });
  const process = { selector: { case: "pid", value: pid } } as const;
  const stdin = Buffer.from("typed\n");
  await daemon.processes.sendInput({ process, input: { input: { case: "stdin", value: stdin } } });
  // Its end comes when somebody has opened it, as for any pipe that has a name.
  const { stdout, stderr, end } = await collect(
    untilSeen(rest, "typed\n", async () => {
      await daemon.processes.closeStdin({ process });
    }),
  );
  expect({ stdout, stderr, exitCode: end.exitCode }).toEqual({
    stdout: "out\ntyped\n",
    stderr: "err\n",
    exitCode: 0,
  });
});

test("input is written, closed, refused when there is none", async () => {
  await using daemon = await startTestDaemon();
  const { pid, rest } = await begin(daemon, "cat");
  const process = { selector: { case: "pid", value: pid } } as const;
  const text = { input: { case: "stdin", value: Buffer.from("hällo\n") } } as const;
  await daemon.processes.sendInput({ process, input: text });
  await daemon.processes.sendInput({
    process,
    input: { input: { case: "stdin", value: new Uint8Array() } },
  });
  const tty = { input: { case: "pty", value: Buffer.from("x") } } as const;
  expect(await faultOf(daemon.processes.sendInput({ process, input: tty }))).toEqual([
    "Internal",
    "error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty",
  ]);
  expect(await faultOf(daemon.processes.sendInput({ process }))).toEqual([
    "Unimplemented",
    "invalid input type <nil>",
  ]);
  await daemon.processes.closeStdin({ process });
  const result = await collect(rest);
  expect([result.stdout, result.end.exitCode]).toEqual(["hällo\n", 0]);

  const closed = await begin(daemon, "read line; echo $?; sleep 30", { stdin: false });
  const other = { selector: { case: "pid", value: closed.pid } } as const;
  expect(await faultOf(daemon.processes.sendInput({ process: other, input: text }))).toEqual([
    "Internal",
    "error writing to stdin: stdin not enabled or closed",
  ]);
  await daemon.processes.closeStdin({ process: other });
  await daemon.processes.closeStdin({ process: other });
  await daemon.processes.sendSignal({ process: other, signal: 9 });
  expect((await collect(closed.rest)).stdout).toBe("1\n");
});

test("a stream of input goes where its last start says", async () => {
  await using daemon = await startTestDaemon();
  const first = await begin(daemon, "cat");
  const second = await begin(daemon, "cat", { tag: "two" });
  async function* items(): AsyncGenerator<Item> {
    yield startItem({ case: "pid", value: first.pid });
    yield dataItem("a");
    yield { event: { case: "keepalive", value: {} } };
    yield dataItem("b");
    yield startItem({ case: "tag", value: "two" });
    yield dataItem("c");
  }
  await daemon.processes.streamInput(items());
  for (const { pid } of [first, second]) {
    await daemon.processes.closeStdin({ process: { selector: { case: "pid", value: pid } } });
  }
  expect([(await collect(first.rest)).stdout, (await collect(second.rest)).stdout]).toEqual([
    "ab",
    "c",
  ]);
  expect([
    await faultOf(daemon.processes.streamInput(only(dataItem("x")))),
    await faultOf(daemon.processes.streamInput(only(startItem({ case: "pid", value: 4_000_000 })))),
  ]).toEqual([
    ["InvalidArgument", "input data came before the start event"],
    ["NotFound", "process with pid 4000000 not found"],
  ]);
});

test("a process is listed, found by pid and tag, and leaves the list when it ends", async () => {
  await using daemon = await startTestDaemon();
  const { pid, rest } = await begin(daemon, "sleep 30", { tag: "t" });
  const byTag = { selector: { case: "tag", value: "t" } } as const;
  const listed = await daemon.processes.list({});
  expect(listed.processes.map((item) => [item.pid, item.tag, item.config?.cmd])).toEqual([
    [pid, "t", "/bin/sh"],
  ]);
  await daemon.processes.update({ process: byTag });
  expect(
    await faultOf(daemon.processes.update({ process: byTag, pty: { size: { cols: 1, rows: 1 } } })),
  ).toEqual(["Internal", "error resizing tty: tty not assigned to process"]);
  await daemon.processes.sendSignal({ process: byTag, signal: 15 });
  expect((await collect(rest)).end).toEqual({
    exitCode: -1,
    exited: false,
    status: "signal: terminated",
    error: "signal: terminated",
  });
  expect((await daemon.processes.list({})).processes).toEqual([]);
  const gone = await runScript(daemon.processes, `kill -0 ${pid} 2>/dev/null; echo $?`);
  expect(gone.stdout).toBe("1\n");
});

test("signals other than the two are refused, after the process was looked up", async () => {
  await using daemon = await startTestDaemon();
  const { pid, rest } = await begin(daemon, "sleep 30");
  const process = { selector: { case: "pid", value: pid } } as const;
  const unknown = { selector: { case: "pid", value: 4_000_000 } } as const;
  expect([
    await faultOf(daemon.processes.sendSignal({ process })),
    await faultOf(daemon.processes.sendSignal({ process, signal: INTERRUPT })),
    await faultOf(daemon.processes.sendSignal({ process: unknown, signal: INTERRUPT })),
    await faultOf(daemon.processes.sendSignal({ signal: 9 })),
  ]).toEqual([
    ["InvalidArgument", "invalid signal: SIGNAL_UNSPECIFIED"],
    ["InvalidArgument", "invalid signal: 2"],
    ["NotFound", "process with pid 4000000 not found"],
    ["Unimplemented", "invalid input type *process.ProcessSelector"],
  ]);
  await daemon.processes.sendSignal({ process, signal: 9 });
  expect((await collect(rest)).end.status).toBe("signal: killed");
});

test("whoever joins sees the same end; later joiners see start and end", async () => {
  await using daemon = await startTestDaemon();
  const { pid, rest } = await begin(daemon, "read line; echo $line", { tag: "again" });
  const process = { selector: { case: "pid", value: pid } } as const;
  const joined = collect(daemon.processes.connect({ process }));
  await expect.poll(async () => (await daemon.processes.list({})).processes.length).toBe(1);
  const line = { input: { case: "stdin", value: Buffer.from("x\n") } } as const;
  await daemon.processes.sendInput({ process, input: line });
  expect((await collect(rest)).stdout).toBe("x\n");
  expect((await joined).end.exitCode).toBe(0);
  const byTag = { selector: { case: "tag", value: "again" } } as const;
  for (const selector of [process, byTag]) {
    const late = await collect(daemon.processes.connect({ process: selector }));
    expect([late.pid, late.kinds, late.end.status]).toEqual([
      pid,
      ["start", "end"],
      "exit status 0",
    ]);
  }
  const next = await begin(daemon, "exit 4", { tag: "again" });
  await collect(next.rest);
  const newest = await collect(daemon.processes.connect({ process: byTag }));
  expect([newest.pid, newest.end.exitCode]).toEqual([next.pid, 4]);
});

test("the deadline of a start ends the stream and the process", async () => {
  await using daemon = await startTestDaemon();
  // The first process waits for pipes to be made; on a busy machine that alone may take as long.
  await runScript(daemon.processes, "true");
  const call = { process: { cmd: "sleep", args: ["30"] }, tag: "late" };
  const stream = daemon.processes.start(call, { timeoutMs: 1_000, headers: {} });
  const pids: number[] = [];
  const failing = (async () => {
    for await (const { event } of stream) {
      if (event?.event.case === "start") pids.push(event.event.value.pid);
    }
  })();
  const [code] = await faultOf(failing);
  expect(code).toBe("DeadlineExceeded");
  await expect.poll(async () => (await daemon.processes.list({})).processes).toEqual([]);
  const pid = pids[0] ?? 0;
  const ended = await collect(
    daemon.processes.connect({ process: { selector: { case: "pid", value: pid } } }),
  );
  expect(ended.end.status).toBe("signal: killed");
});

test("a client that leaves does not end its process", async () => {
  await using daemon = await startTestDaemon();
  const { pid, controller } = await begin(daemon, "read line; exit 5");
  controller.abort();
  const process = { selector: { case: "pid", value: pid } } as const;
  const joined = collect(daemon.processes.connect({ process }));
  const line = { input: { case: "stdin", value: Buffer.from("\n") } } as const;
  await daemon.processes.sendInput({ process, input: line });
  expect((await joined).end.exitCode).toBe(5);
});

test("a natural end waits for the output, the end by a signal does not", async () => {
  await using daemon = await startTestDaemon();
  const waits = await runScript(daemon.processes, "(sleep 0.3; echo late) & echo early");
  expect(waits.stdout).toBe("early\nlate\n");
  const { pid, rest } = await begin(daemon, "sleep 30 & echo $!; wait");
  const { value: first } = await rest[Symbol.asyncIterator]().next();
  const output = first?.event?.event?.value?.output?.value;
  const sleeper = Number(Buffer.from(output ?? []).toString());
  expect(sleeper).toBeGreaterThan(pid);
  const process = { selector: { case: "pid", value: pid } } as const;
  await daemon.processes.sendSignal({ process, signal: 9 });
  const { end } = await collect(rest);
  expect(end.status).toBe("signal: killed");
  await runScript(daemon.processes, `kill -9 ${sleeper}`);
});

test("silence is filled with keepalives as often as was asked", async () => {
  await using daemon = await startTestDaemon();
  const processes = createClient(
    Process,
    daemon.transport({ headers: { "keepalive-ping-interval": "1" } }),
  );
  const result = await collect(processes.start({ process: { cmd: "sleep", args: ["1.5"] } }));
  expect(result.kinds).toEqual(["start", "keepalive", "end"]);
});

test("a lot of output arrives complete, in pieces of at most 32 KiB", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  let bytes = 0;
  let largest = 0;
  const script = "head -c 20000000 /dev/zero";
  for await (const { event } of daemon.processes.start({
    process: { cmd: "/bin/sh", args: ["-c", script] },
  })) {
    const data = event?.event.case === "data" ? event.event.value.output.value : undefined;
    bytes += data?.length ?? 0;
    largest = Math.max(largest, data?.length ?? 0);
  }
  expect([bytes, largest <= 32_768]).toEqual([20_000_000, true]);
});

test("a reader that never reads does not hold the others", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const { pid, rest, controller } = await begin(daemon, "read go; head -c 30000000 /dev/zero");
  const process = { selector: { case: "pid", value: pid } } as const;
  let bytes = 0;
  const reading = (async () => {
    for await (const { event } of daemon.processes.connect({ process })) {
      if (event?.event.case === "data") bytes += event.event.value.output.value?.length ?? 0;
    }
  })();
  const go = { input: { case: "stdin", value: Buffer.from("go\n") } } as const;
  await daemon.processes.sendInput({ process, input: go });
  await reading;
  expect(bytes).toBe(30_000_000);
  controller.abort();
  await faultOf(collect(rest));
});
