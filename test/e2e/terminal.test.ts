/** Terminals of the unmodified `e2b` package, in a real container. */

import assert from "node:assert/strict";
import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeCensus, type Census } from "../support/census.ts";
import { hasSetId, isGvisor } from "../support/level.ts";
import { startServe, type TestServe } from "../support/serve.ts";

let before: Census;
let serve: TestServe;
let sandbox: Sandbox;

beforeAll(async () => {
  before = await takeCensus();
  serve = await startServe();
  const options: SandboxOpts = {
    apiKey: serve.apiKey,
    apiUrl: serve.url,
    sandboxUrl: serve.url,
  };
  sandbox = await Sandbox.create("base", options);
});

afterAll(async () => {
  await sandbox.kill();
  await serve[Symbol.asyncDispose]();
  assert.deepEqual(await takeCensus(serve.home), before);
});

const SIZE = { cols: 80, rows: 24 };
const encoder = new TextEncoder();

/** Gathers what a terminal shows. */
function screen() {
  const decoder = new TextDecoder();
  let text = "";
  return {
    text: () => text,
    onData: (bytes: Uint8Array) => {
      text += decoder.decode(bytes, { stream: true });
    },
  };
}

test("a login shell of the default user, and its exit code", async () => {
  const shown = screen();
  const terminal = await sandbox.pty.create({
    ...SIZE,
    envs: { ABC: "123" },
    onData: shown.onData,
  });
  const line = "echo $ABC; whoami; pwd; tty; ls -l $(tty); sudo -n id -u; exit 0\n";
  await sandbox.pty.sendInput(terminal.pid, encoder.encode(line));
  expect(await terminal.wait()).toMatchObject({ exitCode: 0 });
  const lines = shown.text().replaceAll("\r", "").split("\n");
  expect(lines).toEqual(
    expect.arrayContaining([
      "user",
      "/home/user",
      expect.stringMatching(/^\/dev\/pts\/\d+$/),
      ...(hasSetId ? ["0"] : []),
    ]),
  );
  expect(shown.text()).toMatch(isGvisor ? /crw------- 1 user / : /crw--w---- 1 user tty /);
  expect(shown.text()).toContain("123");
  expect(shown.text()).not.toContain("no job control");
});

test("the size is what was asked for, and then what it was changed to", async () => {
  const shown = screen();
  const terminal = await sandbox.pty.create({ ...SIZE, onData: shown.onData });
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("tput cols\n"));
  // Before each prompt bash reads the size and sets it again, which undoes a change in between.
  await expect.poll(shown.text).toMatch(/[\nl\r]80\r\n[^]*\$ $/);
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 24 });
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("tput cols\n"));
  await expect.poll(shown.text).toMatch(/[\nl\r]100\r\n/);
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("exit\n"));
  await terminal.wait();
});

test("a client that comes back sees what is shown from then on", async () => {
  const first = screen();
  const terminal = await sandbox.pty.create({ ...SIZE, onData: first.onData });
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("echo fir''st\n"));
  await expect.poll(first.text).toContain("first");
  await terminal.disconnect();
  const second = screen();
  const again = await sandbox.pty.connect(terminal.pid, { onData: second.onData });
  expect(again.pid).toBe(terminal.pid);
  await sandbox.pty.sendInput(again.pid, encoder.encode("echo sec''ond; exit\n"));
  expect(await again.wait()).toMatchObject({ exitCode: 0 });
  expect([second.text().includes("second"), second.text().includes("first")]).toEqual([
    true,
    false,
  ]);
});

test("a killed terminal is gone at once", async () => {
  const terminal = await sandbox.pty.create({ ...SIZE, onData: () => undefined });
  expect(await sandbox.pty.kill(terminal.pid)).toBe(true);
  await expect(sandbox.commands.run(`kill -0 ${terminal.pid}`)).rejects.toMatchObject({
    exitCode: 1,
  });
  await expect(terminal.wait()).rejects.toMatchObject({ exitCode: -1, error: "signal: killed" });
  expect(await sandbox.pty.kill(999_999)).toBe(false);
});

test("keys act on the job in front", async () => {
  const shown = screen();
  const terminal = await sandbox.pty.create({ ...SIZE, onData: shown.onData });
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("sh -c 'echo be''gun; sleep 600'\n"));
  await expect.poll(shown.text).toContain("begun");
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("\u0003"));
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("echo code:$?\n"));
  await expect.poll(shown.text).toContain("code:130");
  await sandbox.pty.sendInput(terminal.pid, encoder.encode("\u0004"));
  expect(await terminal.wait()).toMatchObject({ exitCode: 0 });
});
