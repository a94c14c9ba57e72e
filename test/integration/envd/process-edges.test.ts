/** Rarer turns in the life of a process. */

import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { Process } from "../../../src/gen/process/process_pb.ts";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { ownSleep } from "../../support/daemon/own-sleep.ts";
import { envelope } from "../../support/raw-call.ts";

test("a process that ended but whose output is held is listed, and cannot be signalled", async () => {
  const [first, second] = [ownSleep(604), ownSleep(605)];
  await using daemon = await startTestDaemon();
  const result = collect(
    daemon.processes.start({
      process: {
        cmd: "/bin/sh",
        args: ["-c", `(read line </dev/tty; ${first}) 2>/dev/null & ${second} & exit 6`],
      },
      tag: "held",
    }),
  );
  const process = { selector: { case: "tag", value: "held" } } as const;
  await expect
    .poll(async () => (await daemon.processes.list({})).processes.map(({ tag }) => tag))
    .toEqual(["held"]);
  const [held] = (await daemon.processes.list({})).processes;
  // A signal before its end would end it before it has begun the others.
  await expect.poll(() => existsSync(`/proc/${held?.pid}`)).toBe(false);
  expect(await faultOf(daemon.processes.sendSignal({ process, signal: 15 }))).toEqual([
    "Internal",
    "error sending signal: os: process already finished",
  ]);
  expect((await daemon.processes.list({})).processes).toHaveLength(1);
  await runScript(
    daemon.processes,
    `pkill -fx '${second}'; until pkill -fx '${first}'; do sleep 0.1; done`,
  );
  expect((await result).end.exitCode).toBe(6);
});

test("a deadline that comes after the exit is told with the exit", async () => {
  await using daemon = await startTestDaemon();
  const sleep = ownSleep(606);
  const call = { process: { cmd: "/bin/sh", args: ["-c", `${sleep} & exit 6`] }, tag: "late" };
  const [code] = await faultOf(collect(daemon.processes.start(call, { timeoutMs: 500 })));
  const process = { selector: { case: "tag", value: "late" } } as const;
  await expect.poll(async () => (await daemon.processes.list({})).processes).toEqual([]);
  const ended = await collect(daemon.processes.connect({ process }));
  expect([code, ended.end]).toEqual([
    "DeadlineExceeded",
    { exitCode: 6, exited: true, status: "exit status 6", error: "context deadline exceeded" },
  ]);
  await runScript(daemon.processes, `pkill -fx '${sleep}'; true`);
});

test.for(["9999999999"])("a deadline of %s ms is far away", async (timeout) => {
  await using daemon = await startTestDaemon();
  const headers = { "connect-timeout-ms": timeout };
  const processes = createClient(Process, daemon.transport({ headers }));
  for (let count = 0; count < 10; count += 1) {
    expect((await runScript(processes, "sleep 0.05; echo up")).stdout).toBe("up\n");
  }
});

test("input to a process that reads no more is told", async () => {
  await using daemon = await startTestDaemon();
  const started = Promise.withResolvers<number>();
  const result = (async () => {
    const stream = daemon.processes.start({
      process: { cmd: "/bin/sh", args: ["-c", "exec <&-; echo closed; sleep 607"] },
    });
    let pid = 0;
    for await (const { event } of stream) {
      if (event?.event.case === "start") pid = event.event.value.pid;
      if (event?.event.case === "data") started.resolve(pid);
    }
  })();
  const pid = await started.promise;
  const process = { selector: { case: "pid", value: pid } } as const;
  const input = { input: { case: "stdin", value: Buffer.from("x") } } as const;
  expect(await faultOf(daemon.processes.sendInput({ process, input }))).toEqual([
    "Internal",
    `error writing to stdin: error writing to stdin of process '${pid}': broken pipe`,
  ]);
  await daemon.processes.sendSignal({ process, signal: 9 });
  await result;
});

test("a command is found by the PATH of its own environment", async () => {
  await using daemon = await startTestDaemon();
  const bin = join(daemon.folder, "bin");
  await mkdir(bin);
  await writeFile(join(bin, "only-here"), "#!/bin/sh\necho found $0; umask\n");
  await chmod(join(bin, "only-here"), 0o755);
  for (const pty of [undefined, { size: { cols: 80, rows: 24 } }]) {
    const result = await collect(
      daemon.processes.start({
        process: { cmd: "only-here", envs: { PATH: `${bin}:/usr/bin:/bin` } },
        ...(pty && { pty }),
      }),
    );
    expect((result.stdout + result.pty).replaceAll("\r", "")).toBe(
      `found ${bin}/only-here\n0022\n`,
    );
  }
});

test("a client that leaves before the start is told ends nothing and holds nothing up", async () => {
  await using daemon = await startTestDaemon();
  const COUNT = 20;
  const calls = Array.from({ length: COUNT }, async (_, index) => {
    const script = `echo up > ${join(daemon.folder, `mark${index}`)}; exec sleep 60`;
    const body = envelope(
      JSON.stringify({ process: { cmd: "sh", args: ["-c", script] }, tag: "left", stdin: false }),
    );
    const head = [
      "POST /process.Process/Start HTTP/1.1",
      "Host: x",
      "Content-Type: application/connect+json",
      "Connect-Protocol-Version: 1",
      `Content-Length: ${body.length}`,
    ].join("\r\n");
    const socket = connect(daemon.publicSocket);
    await once(socket, "connect");
    socket.write(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body]), () => socket.destroy());
    await once(socket, "close");
  });
  await Promise.all(calls);
  const marks = async () =>
    (await readdir(daemon.folder)).filter((name) => name.startsWith("mark")).length;
  // A call whose client is gone before its turn is not begun any more; what began goes on.
  expect((await runScript(daemon.processes, "echo on")).stdout).toBe("on\n");
  const list = async () => (await daemon.processes.list({})).processes;
  await expect.poll(marks).toBeGreaterThan(0);
  await expect.poll(async () => (await list()).length - (await marks())).toBe(0);
  expect(new Set((await list()).map(({ tag }) => tag))).toEqual(new Set(["left"]));
  await expect
    .poll(async () => {
      const left = await list();
      for (const { pid } of left) {
        const process = { selector: { case: "pid", value: pid } } as const;
        await daemon.processes.sendSignal({ process, signal: 9 }).catch(() => undefined);
      }
      return left.length;
    })
    .toBe(0);
});

test("the begin of a character waits for its rest, and goes by itself if none comes", async () => {
  await using daemon = await startTestDaemon();
  const begun = String.raw`printf 'a\342\202'; read go`;
  const script = (rest: string) => ({ cmd: "/bin/sh", args: ["-c", `${begun}; ${rest}`] });
  const stream = daemon.processes.start({
    process: script(String.raw`printf '\254\303'`),
    tag: "begun",
  });
  const pieces: string[] = [];
  for await (const { event } of stream) {
    if (event?.event.case !== "data") continue;
    pieces.push(Buffer.from(event.event.value.output.value ?? []).toString("latin1"));
    if (pieces.join("") !== "a\u00e2\u0082") continue;
    const input = { input: { case: "stdin", value: Buffer.from("\n") } } as const;
    const process = { selector: { case: "tag", value: "begun" } } as const;
    await daemon.processes.sendInput({ process, input });
  }
  expect(pieces.join("")).toBe("a\u00e2\u0082\u00ac\u00c3");
  expect(pieces[0]).toBe("a");
});
