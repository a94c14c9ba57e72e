/** Replies that state what is left, what is over, and what helps, for calls that came late or wrong. */

import { expect, test } from "vitest";
import { startMcpWorld } from "../../support/mcp-sandbox.ts";

async function startSandbox() {
  const world = await startMcpWorld();
  const id = await world.createSandbox();
  const call = (tool: string, input: object) => world.call(tool, { sandbox_id: id, ...input });
  const shell = (command: string) =>
    call("run_process", { cmd: "/bin/sh", args: ["-c", command], cwd: world.folder });
  return { world, id, call, shell, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

function watcherOf(text: string): string {
  return /watcher_id: (\w+)/.exec(text)?.[1] ?? "";
}

test("a watcher with changes left does not end before they are taken", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  const started = await call("watch_path", { path: world.folder, wait_seconds: 0 });
  const watcher = { watcher_id: watcherOf(started.text), close: true };
  await shell("for i in $(seq 600); do mkdir d$i; done");
  const first = (await call("watch_path", watcher)).text;
  expect(first).toMatch(/\| 500 changes \| 100 more: .*\| watcher not ended: /);
  expect((await call("watch_path", watcher)).text).toMatch(/\| 100 changes \| watcher ended \|/);
  expect((await call("watch_path", watcher)).text).toMatch(/^not_found: /);
});

test("a watcher of a directory that was moved says so in every reply", async () => {
  await using sandbox = await startSandbox();
  const { call, shell, world } = sandbox;
  await shell("mkdir d");
  const started = await call("watch_path", { path: `${world.folder}/d`, wait_seconds: 0 });
  const watcher = { watcher_id: watcherOf(started.text) };
  await shell("mv d e; mkdir d; touch d/new");
  expect((await call("watch_path", watcher)).text).toMatch(/itself was moved[^]*\nrename \.\n/);
  expect((await call("watch_path", { ...watcher, wait_seconds: 0 })).text).toMatch(
    /no change \| the directory itself was moved or removed: /,
  );
});
