/** Terminals as the public clients' users open, leave, resize and close them. */

import type { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MATRIX_RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

const MISSING_PID = 999_999;

/** By name: the class itself is marked as one that will go. */
const NOT_FOUND = { name: "NotFoundError" };

const SIZE = { cols: 80, rows: 24 };

const service = useSdkServe();

/** What a terminal showed so far, as text. */
function createScreen() {
  const decoder = new TextDecoder();
  let text = "";
  return {
    onData: (data: Uint8Array) => {
      text += decoder.decode(data, { stream: true });
    },
    text: () => text,
  };
}

function keys(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

describe.each(MATRIX_RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
  });

  afterAll(async () => sandbox.kill());

  test("a terminal has a shell with the variables, the user and the folder asked for", async () => {
    const screen = createScreen();
    const terminal = await sandbox.pty.create({
      ...SIZE,
      onData: screen.onData,
      envs: { ABC: "123" },
      cwd: "/tmp",
    });
    await sandbox.pty.sendInput(terminal.pid, keys("echo [$ABC] [$PWD] [$TERM] [$(id -un)]\n"));
    await expect.poll(screen.text).toContain("[123] [/tmp] [xterm-256color] [user]");
    await sandbox.pty.sendInput(terminal.pid, keys("exit\n"));
    expect(await terminal.wait()).toMatchObject({ exitCode: 0 });
  });

  test("the exit code of the shell is that of the terminal", async () => {
    const terminal = await sandbox.pty.create({ ...SIZE, onData: () => {}, user: "root" });
    await sandbox.pty.sendInput(terminal.pid, keys("exit 3\n"));
    await expect(terminal.wait()).rejects.toMatchObject({ exitCode: 3 });
  });

  test("who leaves may join again: the same process, and output on both sides", async () => {
    const before = createScreen();
    const terminal = await sandbox.pty.create({ ...SIZE, onData: before.onData, timeoutMs: 0 });
    await sandbox.pty.sendInput(terminal.pid, keys("MARK=kept; echo fir''st\n"));
    await expect.poll(before.text).toContain("first");
    await terminal.disconnect();
    const after = createScreen();
    const joined = await sandbox.pty.connect(terminal.pid, { onData: after.onData });
    expect(joined.pid).toBe(terminal.pid);
    await sandbox.pty.sendInput(joined.pid, keys("echo sec''ond $MARK\n"));
    await expect.poll(after.text).toContain("second kept");
    await sandbox.pty.sendInput(joined.pid, keys("exit\n"));
    expect(await joined.wait()).toMatchObject({ exitCode: 0 });
  });

  test("programs see the size, also after it changed", async () => {
    const screen = createScreen();
    const terminal = await sandbox.pty.create({ ...SIZE, onData: screen.onData });
    await sandbox.pty.sendInput(terminal.pid, keys("echo size $(tput cols)x$(tput lines)\n"));
    // Before each prompt bash reads the size and sets it again, which undoes a change in between.
    await expect.poll(screen.text).toMatch(/size 80x24\r\n[^]*\$ $/);
    await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 50 });
    await sandbox.pty.sendInput(terminal.pid, keys("echo size $(tput cols)x$(tput lines)\n"));
    await expect.poll(screen.text).toContain("size 100x50");
    expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
    await expect(terminal.wait()).rejects.toThrow(sdk.CommandExitError);
  });

  test("ctrl-C reaches what runs in front, and the shell goes on", async () => {
    const screen = createScreen();
    const terminal = await sandbox.pty.create({ ...SIZE, onData: screen.onData });
    // A shell that has not begun to read yet would itself be what the key ends.
    await sandbox.pty.sendInput(terminal.pid, keys("echo sta''rted; sleep 600 && echo nev''er\n"));
    await expect.poll(screen.text).toContain("started");
    await sandbox.pty.sendInput(terminal.pid, keys("\u{3}"));
    await sandbox.pty.sendInput(terminal.pid, keys("echo ali''ve\n"));
    await expect.poll(screen.text).toContain("alive");
    expect(screen.text()).not.toContain("never");
    await terminal.kill();
    await expect(terminal.wait()).rejects.toThrow(sdk.CommandExitError);
  });

  test("a killed terminal is gone, and one that never was is none", async () => {
    const terminal = await sandbox.pty.create({ ...SIZE, onData: () => {} });
    expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
    await expect(terminal.wait()).rejects.toThrow(sdk.CommandExitError);
    await expect(sandbox.commands.run(`kill -0 ${terminal.pid}`)).rejects.toThrow(
      sdk.CommandExitError,
    );
    expect(await sandbox.pty.kill(MISSING_PID)).toBe(false);
    await expect(sandbox.pty.connect(MISSING_PID)).rejects.toMatchObject(NOT_FOUND);
    await expect(sandbox.pty.sendInput(MISSING_PID, keys("x"))).rejects.toMatchObject(NOT_FOUND);
    await expect(sandbox.pty.resize(MISSING_PID, SIZE)).rejects.toMatchObject(NOT_FOUND);
  });

  test("a terminal for nobody or nowhere is refused with its class", async () => {
    await expect(
      sandbox.pty.create({ ...SIZE, onData: () => {}, user: "nobody-here" }),
    ).rejects.toThrow(sdk.AuthenticationError);
    await expect(
      sandbox.pty.create({ ...SIZE, onData: () => {}, cwd: "/missing" }),
    ).rejects.toThrow(sdk.InvalidArgumentError);
  });
});
