/** Commands as the public clients' users write them, on a real sandbox of each client's release. */

import type { CommandHandle, Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RELEASES, useSdkServe } from "../../support/clients/sdk.ts";
import { hasSetId } from "../../support/level.ts";

/** No process of a fresh sandbox has it. */
const MISSING_PID = 999_999;

/** By name: the class itself is marked as one that will go. */
const NOT_FOUND = { name: "NotFoundError" };

const service = useSdkServe();

describe.each(RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", {
      ...service.options,
      envs: { AT_CREATION: "here" },
    });
  });

  afterAll(async () => sandbox.kill());

  /** What a shell says, without its last line break. */
  async function say(script: string, user?: string): Promise<string> {
    const result = await sandbox.commands.run(script, user === undefined ? {} : { user });
    return result.stdout.trimEnd();
  }

  test("a command gives its output, its problems and its exit code", async () => {
    const result = await sandbox.commands.run("echo out; echo problem >&2");
    expect({ ...result }).toEqual({
      exitCode: 0,
      error: undefined,
      stdout: "out\n",
      stderr: "problem\n",
    });
  });

  test("a user may open the standard streams by path", async () => {
    const result = await sandbox.commands.run("echo out > /dev/stdout; echo err | tee /dev/stderr");
    expect(result).toMatchObject({ exitCode: 0, stdout: "out\nerr\n", stderr: "err\n" });
  });

  test("sudo gives the rights of root, also on the standard streams", async () => {
    const result = await sandbox.commands.run("sudo sh -c 'id -un > /dev/stderr'").catch(identity);
    const refused = { exitCode: 1, stderr: expect.stringContaining('"no new privileges"') };
    expect(result).toMatchObject(hasSetId ? { exitCode: 0, stderr: "root\n" } : refused);
  });

  test("a failed command is an exit error that carries all of the result", async () => {
    const failure = await sandbox.commands.run("echo out; echo bad >&2; exit 3").catch(identity);
    expect(failure).toBeInstanceOf(sdk.CommandExitError);
    expect(failure).toMatchObject({
      exitCode: 3,
      error: "exit status 3",
      stdout: "out\n",
      stderr: "bad\n",
    });
    await expect(sandbox.commands.run("no-such-program")).rejects.toMatchObject({ exitCode: 127 });
  });

  test.for([
    `quotes ' " and \\ and $HOME and \`id\``,
    "line one\nline two\n\ntabs\tand  spaces",
    "umlauts äöü, Ελληνικά, 漢字, 🙂",
  ])("text arrives as it was written: %j", async (text) => {
    const result = await sandbox.commands.run(`cat <<'END'\n${text}\nEND`);
    expect(result.stdout).toBe(`${text}\n`);
  });

  test("output is handed over while the command runs, each stream on its own", async () => {
    const seen = { out: "", err: "" };
    const first = Promise.withResolvers<void>();
    const command = await sandbox.commands.run("echo one; read x; echo $x; echo two >&2", {
      background: true,
      stdin: true,
      onStdout: (text) => {
        seen.out += text;
        first.resolve();
      },
      onStderr: (text) => {
        seen.err += text;
      },
    });
    await first.promise;
    expect(seen).toEqual({ out: "one\n", err: "" });
    await sandbox.commands.sendStdin(command.pid, "go\n");
    await command.wait();
    expect(seen).toEqual({ out: "one\ngo\n", err: "two\n" });
    expect([command.stdout, command.stderr, command.exitCode, command.error]).toEqual([
      "one\ngo\n",
      "two\n",
      0,
      undefined,
    ]);
  });

  test("who runs it, and where: user, home, groups, folder", async () => {
    expect(await say("id -un; pwd; echo $HOME $USER $LOGNAME")).toBe(
      "user\n/home/user\n/home/user user user",
    );
    expect(await say("id -un; pwd; echo $HOME; test $(umask) = 0022 && echo usual", "root")).toBe(
      "root\n/home/user\n/root\nusual",
    );
    expect(await say("id -nG")).toMatch(/\bsudo\b/);
    await sandbox.files.makeDir("nextapp");
    for (const cwd of ["~/nextapp", "nextapp", "/home/user/nextapp"]) {
      expect((await sandbox.commands.run("pwd", { cwd })).stdout).toBe("/home/user/nextapp\n");
    }
  });

  test("a folder that is gone or closed to the user refuses the start", async () => {
    await sandbox.commands.run("mkdir /tmp/doomed && rmdir /tmp/doomed");
    const gone = sandbox.commands.run("true", { cwd: "/tmp/doomed" });
    await expect(gone).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(gone).rejects.toThrow("cwd '/tmp/doomed' does not exist");
    const closed = sandbox.commands.run("true", { cwd: "/root" });
    await expect(closed).rejects.toThrow(sdk.InvalidArgumentError);
    await expect(closed).rejects.toThrow("permission denied");
  });

  test("an unknown user is an authentication error", async () => {
    const unknown = sandbox.commands.run("true", { user: "nobody-here" });
    await expect(unknown).rejects.toThrow(sdk.AuthenticationError);
    await expect(unknown).rejects.toThrow("invalid username: 'nobody-here'");
  });

  test("variables of the sandbox and of one command, gone in the next", async () => {
    const script = "echo $AT_CREATION $ONCE";
    const result = await sandbox.commands.run(script, { envs: { ONCE: "only now" } });
    expect(result.stdout).toBe("here only now\n");
    expect(await say(script)).toBe("here");
    expect(await say("sudo -E env | grep -c ^ONCE= || true")).toBe("0");
    expect(await say(`echo $E2B_SANDBOX $E2B_SANDBOX_ID`)).toBe(`true ${sandbox.sandboxId}`);
  });

  test("a deadline ends the command with a timeout error, not before", async () => {
    await expect(sandbox.commands.run("echo fast", { timeoutMs: 4000 })).resolves.toMatchObject({
      stdout: "fast\n",
    });
    await expect(sandbox.commands.run("sleep 60", { timeoutMs: 500 })).rejects.toThrow(
      sdk.TimeoutError,
    );
    const late = await sandbox.commands.run("sleep 60", { timeoutMs: 3000, background: true });
    await expect(late.wait()).rejects.toThrow(sdk.TimeoutError);
    await expect.poll(async () => sandbox.commands.list()).toEqual([]);
  });

  test("a command without a deadline is not ended by one", async () => {
    const result = await sandbox.commands.run("sleep 0.2; echo done", { timeoutMs: 0 });
    expect(result.stdout).toBe("done\n");
  });

  test("what runs is listed with how it was started", async () => {
    const options = { background: true, envs: { A: "1" }, cwd: "/tmp" } as const;
    const commands = [
      await sandbox.commands.run("exec sleep 600", options),
      await sandbox.commands.run("exec sleep 601", { background: true }),
    ];
    const listed = await sandbox.commands.list();
    expect(listed.toSorted((a, b) => a.pid - b.pid)).toEqual([
      {
        pid: commands[0]?.pid,
        cmd: "/bin/bash",
        args: ["-l", "-c", "exec sleep 600"],
        envs: { A: "1" },
        cwd: "/tmp",
      },
      {
        pid: commands[1]?.pid,
        cmd: "/bin/bash",
        args: ["-l", "-c", "exec sleep 601"],
        envs: {},
      },
    ]);
    await endAll(commands);
  });

  test("a killed command is gone at once, and its handle says so", async () => {
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    expect(await say(`kill -0 ${command.pid} && echo alive`)).toBe("alive");
    expect(await sandbox.commands.kill(command.pid)).toBe(true);
    await expect(sandbox.commands.run(`kill -0 ${command.pid}`)).rejects.toThrow(
      sdk.CommandExitError,
    );
    const failure = await command.wait().catch(identity);
    expect(failure).toBeInstanceOf(sdk.CommandExitError);
    expect(failure).toMatchObject({ exitCode: -1, error: "signal: killed" });
    expect(await sandbox.commands.kill(command.pid)).toBe(false);
    expect(await sandbox.commands.kill(MISSING_PID)).toBe(false);
    const other = await sandbox.commands.run("exec sleep 600", { background: true });
    expect(await other.kill()).toBe(true);
  });

  test("a second reader joins a running command, and a reader's leaving ends nothing", async () => {
    const command = await sandbox.commands.run("read x; echo got $x", {
      background: true,
      stdin: true,
    });
    const joined = await sandbox.commands.connect(command.pid);
    expect(joined.pid).toBe(command.pid);
    await command.disconnect();
    await sandbox.commands.sendStdin(command.pid, "it\n");
    expect(await joined.wait()).toMatchObject({ exitCode: 0, stdout: "got it\n" });
  });

  test("joining what is not there is a not-found error", async () => {
    const missing = sandbox.commands.connect(MISSING_PID);
    await expect(missing).rejects.toMatchObject(NOT_FOUND);
    await expect(missing).rejects.toThrow(`process with pid ${MISSING_PID} not found`);
  });

  test.for([
    ["text", "hello"],
    ["special characters", `"'\\\`$!&|;<>*?#~ ä🙂`],
    ["several lines", "one\n\ntwo\n"],
    ["nothing", ""],
    ["bytes", new Uint8Array([0x68, 0xc3, 0xa4])],
  ] as const)("standard input brings %s, and its end ends `cat`", async ([, data]) => {
    const command = await sandbox.commands.run("cat", { background: true, stdin: true });
    await sandbox.commands.sendStdin(command.pid, data);
    await sandbox.commands.closeStdin(command.pid);
    expect(await command.wait()).toMatchObject({
      exitCode: 0,
      stdout: typeof data === "string" ? data : Buffer.from(data).toString(),
    });
  });

  test("a handle writes and closes standard input itself", async () => {
    const command = await sandbox.commands.run("cat", { background: true, stdin: true });
    await command.sendStdin("by the handle");
    await command.closeStdin();
    expect(await command.wait()).toMatchObject({ stdout: "by the handle" });
  });

  test("without standard input a read meets its end", async () => {
    await expect(sandbox.commands.run('read -p "name: " x')).rejects.toMatchObject({ exitCode: 1 });
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    await expect(sandbox.commands.sendStdin(command.pid, "x")).rejects.toThrow(
      /stdin not enabled or closed/,
    );
    await endAll([command]);
    await expect(sandbox.commands.sendStdin(MISSING_PID, "x")).rejects.toMatchObject(NOT_FOUND);
    await expect(sandbox.commands.closeStdin(MISSING_PID)).rejects.toMatchObject(NOT_FOUND);
  });

  test("characters split over frames are joined; a torn last one is marked once", async () => {
    const split = String.raw`printf '\xf0\x9f'; sleep 0.1; printf '\x99\x82'`;
    expect(await say(split)).toBe("🙂");
    const torn = await sandbox.commands.run(String.raw`printf 'a%.0s' $(seq 8191); printf '\xe2'`);
    expect(torn).toMatchObject({ exitCode: 0, stdout: `${"a".repeat(8191)}\u{fffd}` });
  });

  test("two mebibytes arrive whole and in order", async () => {
    const result = await sandbox.commands.run("seq 300000");
    const numbers = Array.from({ length: 300_000 }, (_, index) => index + 1);
    expect(result.stdout === `${numbers.join("\n")}\n`).toBe(true);
  });

  test("a request is aborted by its signal", async () => {
    const aborted = sandbox.commands.list({ signal: AbortSignal.abort() });
    await expect(aborted).rejects.toThrow(/abort/i);
  });
});

function identity(error: unknown): unknown {
  return error;
}

async function endAll(commands: readonly CommandHandle[]): Promise<void> {
  await Promise.all(
    commands.map(async (command) => {
      await command.kill();
      await command.wait().catch(identity);
    }),
  );
}
