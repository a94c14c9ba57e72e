/** Every RPC of a sandbox through the gateway, the same cases in JSON and in binary. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  EventType,
  FileType,
  type FilesystemEvent,
} from "../../../src/gen/filesystem/filesystem_pb.ts";
import { Signal, type StreamInputRequestSchema } from "../../../src/gen/process/process_pb.ts";
import {
  begin,
  byPid,
  byTag,
  CODECS,
  openRpcSandbox,
  stdin,
  type RpcClients,
  type RpcSandbox,
} from "../../support/clients/rpc-sandbox.ts";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

let serve: TestServe;

beforeAll(async () => {
  serve = await startServe(["--pool", "0"]);
});

afterAll(async () => serve[Symbol.asyncDispose]());

describe.each(CODECS)("$codec", ({ useBinaryFormat }) => {
  let sandbox: RpcSandbox;
  let files: RpcClients["files"];
  let processes: RpcClients["processes"];

  beforeAll(async () => {
    sandbox = await openRpcSandbox(serve);
    ({ files, processes } = sandbox.clients({ useBinaryFormat }));
  });

  afterAll(async () => sandbox[Symbol.asyncDispose]());

  async function upload(path: string, content = "12345"): Promise<void> {
    const reply = await fetch(`${serve.url}/files?path=${encodeURIComponent(path)}`, {
      method: "POST",
      headers: { ...sandbox.headers, "content-type": "application/octet-stream" },
      body: content,
    });
    expect(reply.status).toBe(200);
  }

  async function shell(script: string): Promise<void> {
    expect((await runScript(processes, script)).end.exitCode).toBe(0);
  }

  test("Start: start, data and end of a command", async () => {
    const result = await runScript(processes, "echo out; echo err >&2; exit 3");
    expect({ ...result, pid: result.pid > 1 }).toEqual({
      pid: true,
      kinds: ["start", "data", "end"],
      stdout: "out\n",
      stderr: "err\n",
      pty: "",
      end: { exitCode: 3, exited: true, status: "exit status 3", error: "exit status 3" },
    });
  });

  test("List, Connect, SendInput, CloseStdin: a process from both sides", async () => {
    const { pid, rest } = await begin(processes, "cat", { tag: "both-sides" });
    const { processes: listed } = await processes.list({});
    expect(listed).toMatchObject([
      { pid, tag: "both-sides", config: { cmd: "/bin/bash", args: ["-l", "-c", "cat"] } },
    ]);
    const joined = collect(processes.connect({ process: byTag("both-sides") }));
    await processes.sendInput({ process: byPid(pid), input: stdin("one ") });
    await processes.sendInput({ process: byTag("both-sides"), input: stdin("") });
    await processes.closeStdin({ process: byPid(pid) });
    await processes.closeStdin({ process: byPid(pid) }).catch(() => undefined);
    expect(await collect(rest)).toMatchObject({ stdout: "one ", end: { exitCode: 0 } });
    expect(await joined).toMatchObject({ pid, end: { exitCode: 0 } });
    expect((await processes.list({})).processes).toEqual([]);
  });

  test("StreamInput: pieces arrive in their order", async () => {
    const { pid, rest } = await begin(processes, "cat");
    async function* pieces(): AsyncGenerator<MessageInitShape<typeof StreamInputRequestSchema>> {
      yield { event: { case: "start", value: { process: byPid(pid) } } };
      yield { event: { case: "keepalive", value: {} } };
      for (let number = 0; number < 100; number += 1) {
        yield { event: { case: "data", value: { input: stdin(`${number}\n`) } } };
      }
    }
    await processes.streamInput(pieces());
    await processes.closeStdin({ process: byPid(pid) });
    const expected = Array.from({ length: 100 }, (_, number) => `${number}\n`).join("");
    expect((await collect(rest)).stdout).toBe(expected);
  });

  test("SendSignal: the killed one ends for every reader, and is listed no more", async () => {
    const { pid, rest } = await begin(processes, "sleep 30 && echo done");
    const joined = collect(processes.connect({ process: byPid(pid) }));
    await expect.poll(async () => (await processes.list({})).processes.length).toBe(1);
    await processes.sendSignal({ process: byPid(pid), signal: Signal.SIGKILL });
    const killed = {
      exitCode: -1,
      exited: false,
      status: "signal: killed",
      error: "signal: killed",
    };
    expect((await collect(rest)).end).toEqual(killed);
    expect((await joined).end).toEqual(killed);
    expect((await processes.list({})).processes).toEqual([]);
  });

  test("SendSignal: SIGTERM may be answered by the process itself", async () => {
    const { pid, rest } = await begin(processes, "trap 'echo bye; exit 7' TERM; echo up; read x");
    const iterator = rest[Symbol.asyncIterator]();
    await iterator.next();
    await processes.sendSignal({ process: byPid(pid), signal: Signal.SIGTERM });
    expect(await collect(rest)).toMatchObject({ stdout: "bye\n", end: { exitCode: 7 } });
  });

  test("Connect: who comes after the end gets start and end, by pid and by tag", async () => {
    const { pid } = await collect(
      processes.start({ process: { cmd: "/bin/sh", args: ["-c", "exit 5"] }, tag: "over" }),
    );
    for (const process of [byPid(pid), byTag("over")]) {
      const late = await collect(processes.connect({ process }));
      expect([late.pid, late.kinds, late.end.exitCode]).toEqual([pid, ["start", "end"], 5]);
    }
    await collect(processes.start({ process: { cmd: "/bin/true" }, tag: "over" }));
    const again = await collect(processes.connect({ process: byTag("over") }));
    expect(again.end.exitCode).toBe(0);
  });

  test("Start, Update, SendInput: a terminal and its size", async () => {
    const stream = processes.start({
      process: { cmd: "/bin/bash", args: ["-i"], envs: { TERM: "dumb" } },
      pty: { size: { cols: 80, rows: 24 } },
    });
    const iterator = stream[Symbol.asyncIterator]();
    const first = await iterator.next();
    const event = first.done === true ? undefined : first.value.event?.event;
    const process = byPid(event?.case === "start" ? event.value.pid : 0);
    await processes.update({ process, pty: { size: { cols: 101, rows: 51 } } });
    const typed = Buffer.from("stty size; exit\n");
    await processes.sendInput({ process, input: { input: { case: "pty", value: typed } } });
    let shown = "";
    for await (const message of { [Symbol.asyncIterator]: () => iterator }) {
      const data = message.event?.event;
      if (data?.case !== "data") continue;
      shown += Buffer.from(data.value.output.value ?? []).toString();
    }
    expect(shown).toContain("51 101");
  });

  test("Start: a deadline ends the call and the process", async () => {
    const stream = processes.start({ process: { cmd: "sleep", args: ["60"] } }, { timeoutMs: 300 });
    expect((await faultOf(collect(stream)))[0]).toBe("DeadlineExceeded");
    await expect.poll(async () => (await processes.list({})).processes).toEqual([]);
  });

  test("Start: a reader that leaves in the middle of much output leaves the rest in order", async () => {
    const controller = new AbortController();
    const stream = processes.start(
      { process: { cmd: "yes" }, tag: "yes" },
      { signal: controller.signal },
    );
    let seen = 0;
    const read = (async () => {
      for await (const _ of stream) if ((seen += 1) > 20) controller.abort();
    })();
    expect((await faultOf(read))[0]).toBe("Canceled");
    expect((await runScript(processes, "echo on")).stdout).toBe("on\n");
    await processes.sendSignal({ process: byTag("yes"), signal: Signal.SIGKILL });
    await expect.poll(async () => (await processes.list({})).processes).toEqual([]);
  });

  test("MakeDir, Move, Stat, ListDir, Remove: the life of a folder", async () => {
    const made = await files.makeDir({ path: "life/inner" });
    expect(made.entry).toMatchObject({
      name: "inner",
      type: FileType.DIRECTORY,
      path: "/home/user/life/inner",
      mode: 0o755,
      permissions: "drwxr-xr-x",
      owner: "user",
      group: "user",
      metadata: {},
    });
    await upload("life/inner/file.txt");
    const moved = await files.move({ source: "life/inner", destination: "life/outer" });
    expect(moved.entry).toMatchObject({ name: "outer", path: "/home/user/life/outer" });
    const { entry } = await files.stat({ path: "life/outer/file.txt" });
    expect(entry).toMatchObject({
      name: "file.txt",
      type: FileType.FILE,
      size: 5n,
      mode: 0o644,
      permissions: "-rw-r--r--",
      owner: "user",
    });
    expect(Math.abs(Number(entry?.modifiedTime?.seconds) * 1000 - Date.now())).toBeLessThan(60_000);
    const pathsOf = async (depth: number) =>
      (await files.listDir({ path: "life", depth })).entries.map((found) => found.path);
    expect(await pathsOf(0)).toEqual(["/home/user/life/outer"]);
    expect(await pathsOf(1)).toEqual(["/home/user/life/outer"]);
    expect(await pathsOf(2)).toEqual(["/home/user/life/outer", "/home/user/life/outer/file.txt"]);
    await files.remove({ path: "life" });
    expect((await faultOf(files.stat({ path: "life" })))[0]).toBe("NotFound");
    await files.remove({ path: "life" });
  });

  test("Stat, ListDir: links that lead somewhere, nowhere and to themselves", async () => {
    await shell(`mkdir -p links/real && cd links && touch real/in.txt && ln -s real way &&
ln -s gone broken && ln -s loop loop && ln -s /home/user/links/real/in.txt straight`);
    const { entries } = await files.listDir({ path: "links" });
    expect(entries.map((entry) => [entry.name, entry.type, entry.symlinkTarget])).toEqual([
      ["broken", FileType.UNSPECIFIED, "/home/user/links/broken"],
      ["loop", FileType.UNSPECIFIED, "/home/user/links/loop"],
      ["real", FileType.DIRECTORY, undefined],
      ["straight", FileType.FILE, "/home/user/links/real/in.txt"],
      ["way", FileType.DIRECTORY, "/home/user/links/real"],
    ]);
    const { entry } = await files.stat({ path: "links/broken" });
    expect([entry?.permissions.startsWith("L"), entry?.mode]).toEqual([true, 0]);
    const through = await files.listDir({ path: "links/way" });
    expect(through.entries.map(({ path }) => path)).toEqual(["/home/user/links/way/in.txt"]);
  });

  test("WatchDir: events in a stream, beginning with a start", async () => {
    await files.makeDir({ path: "streamed/below" });
    const controller = new AbortController();
    const stream = files.watchDir(
      { path: "streamed", recursive: true, includeEntry: true },
      { signal: controller.signal },
    );
    const kinds: (string | undefined)[] = [];
    const events: FilesystemEvent[] = [];
    const reading = (async () => {
      for await (const { event } of stream) {
        kinds.push(event.case);
        if (event.case === "start") await upload("streamed/below/new.txt");
        if (event.case !== "filesystem") continue;
        events.push(event.value);
        if (event.value.type === EventType.WRITE) controller.abort();
      }
    })();
    expect((await faultOf(reading))[0]).toBe("Canceled");
    expect([kinds[0], kinds.includes("filesystem", 1)]).toEqual(["start", true]);
    expect(events[0]).toMatchObject({ name: "below/new.txt", type: EventType.CREATE });
    expect(events.at(-1)?.entry).toMatchObject({ path: "/home/user/streamed/below/new.txt" });
  });

  test("CreateWatcher, GetWatcherEvents, RemoveWatcher: events on demand", async () => {
    await files.makeDir({ path: "polled" });
    const { watcherId } = await files.createWatcher({ path: "polled" });
    expect((await files.getWatcherEvents({ watcherId })).events).toEqual([]);
    await upload("polled/new.txt");
    const events: FilesystemEvent[] = [];
    await expect
      .poll(async () => {
        events.push(...(await files.getWatcherEvents({ watcherId })).events);
        return events.map((event) => event.type);
      })
      .toContain(EventType.WRITE);
    expect(events[0]).toMatchObject({ name: "new.txt", type: EventType.CREATE });
    await files.removeWatcher({ watcherId });
    const gone = ["NotFound", `watcher with id ${watcherId} not found`];
    expect(await faultOf(files.getWatcherEvents({ watcherId }))).toEqual(gone);
    expect(await faultOf(files.removeWatcher({ watcherId }))).toEqual(gone);
  });
});
