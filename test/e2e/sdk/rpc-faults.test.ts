/** What calls through the gateway are refused for, with the same codes in JSON and in binary. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Signal } from "../../../src/gen/process/process_pb.ts";
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

/** The header that names a user. */
function basic(user: string): string {
  return `Basic ${Buffer.from(`${user}:`).toString("base64")}`;
}

describe.each(CODECS)("$codec", ({ useBinaryFormat }) => {
  let sandbox: RpcSandbox;
  let files: RpcClients["files"];
  let processes: RpcClients["processes"];

  beforeAll(async () => {
    sandbox = await openRpcSandbox(serve);
    ({ files, processes } = sandbox.clients({ useBinaryFormat }));
  });

  afterAll(async () => sandbox[Symbol.asyncDispose]());

  test("a call without the token is unauthenticated, with a wrong user too", async () => {
    const outside = sandbox.clients({
      useBinaryFormat,
      headers: { "x-access-token": "", authorization: basic("user") },
    });
    expect((await faultOf(outside.files.listDir({ path: "." })))[0]).toBe("Unauthenticated");
    expect((await faultOf(runScript(outside.processes, "true")))[0]).toBe("Unauthenticated");
    const nobody = sandbox.clients({
      useBinaryFormat,
      headers: { authorization: basic("nobody-here") },
    });
    const invalid = ["Unauthenticated", "invalid username: 'nobody-here'"];
    expect(await faultOf(nobody.files.listDir({ path: "." }))).toEqual(invalid);
    expect(await faultOf(runScript(nobody.processes, "true"))).toEqual(invalid);
    const root = sandbox.clients({ useBinaryFormat, headers: { authorization: basic("root") } });
    expect((await runScript(root.processes, "id -un")).stdout).toBe("root\n");
    expect((await root.files.stat({ path: "" })).entry?.path).toBe("/home/user");
    expect((await root.files.stat({ path: "~" })).entry?.path).toBe("/root");
  });

  test("errors have the codes and the words of the wire", async () => {
    await runScript(processes, "touch plain; ln -s round round");
    const missing = byPid(999_999);
    const { pid, rest } = await begin(processes, "exec sleep 600", { stdin: false });
    const typed = { input: { case: "pty" as const, value: Buffer.from("x") } };
    const cases: readonly (readonly [() => Promise<unknown>, string, string])[] = [
      [
        async () => files.stat({ path: "gone" }),
        "NotFound",
        "file not found: lstat /home/user/gone: no such file or directory",
      ],
      [
        async () => files.stat({ path: "plain/below" }),
        "Internal",
        "error getting file info: lstat /home/user/plain/below: not a directory",
      ],
      [
        async () => files.stat({ path: "~other" }),
        "InvalidArgument",
        "failed to expand path '~other' for user 'user': cannot expand user-specific home dir",
      ],
      [
        async () => files.listDir({ path: "gone" }),
        "NotFound",
        "path not found: lstat /home/user/gone: no such file or directory",
      ],
      [
        async () => files.listDir({ path: "plain" }),
        "InvalidArgument",
        "path is not a directory: /home/user/plain",
      ],
      [
        async () => files.listDir({ path: "round" }),
        "FailedPrecondition",
        'cyclic symlink or chain >255 links at "/home/user/round"',
      ],
      [
        async () => files.makeDir({ path: "/tmp" }),
        "AlreadyExists",
        "directory already exists: /tmp",
      ],
      [
        async () => files.makeDir({ path: "plain" }),
        "InvalidArgument",
        "path already exists but it is not a directory: /home/user/plain",
      ],
      [
        async () => files.move({ source: "gone", destination: "to" }),
        "NotFound",
        "source file not found: rename /home/user/gone /home/user/to: no such file or directory",
      ],
      [
        async () => files.move({ source: "plain", destination: "/tmp" }),
        "Internal",
        "error renaming: rename /home/user/plain /tmp: file exists",
      ],
      [
        async () => files.createWatcher({ path: "gone" }),
        "NotFound",
        "path /home/user/gone not found: stat /home/user/gone: no such file or directory",
      ],
      [
        async () => files.getWatcherEvents({ watcherId: "wnone" }),
        "NotFound",
        "watcher with id wnone not found",
      ],
      [
        async () => processes.sendSignal({ process: missing, signal: Signal.SIGKILL }),
        "NotFound",
        "process with pid 999999 not found",
      ],
      [
        async () => processes.sendInput({ process: byTag("none"), input: stdin("x") }),
        "NotFound",
        "process with tag none not found",
      ],
      [
        async () => collect(processes.connect({ process: missing })),
        "NotFound",
        "process with pid 999999 not found",
      ],
      [
        async () => processes.sendInput({ process: byPid(pid), input: stdin("x") }),
        "Internal",
        "error writing to stdin: stdin not enabled or closed",
      ],
      [
        async () => processes.sendInput({ process: byPid(pid), input: typed }),
        "Internal",
        "error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty",
      ],
      [
        async () => processes.update({ process: byPid(pid), pty: { size: { cols: 1, rows: 1 } } }),
        "Internal",
        "error resizing tty: tty not assigned to process",
      ],
      [
        async () => collect(processes.start({ process: { cmd: "true", cwd: "/gone" } })),
        "InvalidArgument",
        "cwd '/gone' does not exist",
      ],
    ];
    const outcomes = [];
    for (const [call] of cases) outcomes.push(await faultOf(call()));
    expect(outcomes).toEqual(cases.map(([, code, message]) => [code, message]));
    const closed = async () => processes.sendSignal({ process: byPid(pid), signal: 0 });
    expect((await faultOf(closed()))[0]).toBe("InvalidArgument");
    await processes.sendSignal({ process: byPid(pid), signal: Signal.SIGKILL });
    await collect(rest);
  });
});
