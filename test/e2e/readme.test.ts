/** The README's commands do what it says; a command that it names and this test does not fails. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { startProgram } from "../support/program.ts";

const README = resolve(import.meta.dirname, "../../README.md");

async function run(words: string[], home: string): Promise<{ code: unknown; output: string }> {
  await using program = startProgram([...words, "--home", home], {
    SANDBOX_MCP_LOG_LEVEL: "error",
  });
  program.child.stdin?.end();
  let output = "";
  for await (const chunk of program.stdout.setEncoding("utf8")) output += String(chunk);
  return { code: await program.exited(), output };
}

test("every command of the table runs", async () => {
  const text = await readFile(README, "utf8");
  const [, section = ""] = text.split("## Commands");
  const [table = ""] = section.split("\n## ");
  const named = [...table.matchAll(/`(?:sandbox-mcp )?([a-z]+ ?[a-z]*[^`]*)`/g)]
    .map(([, words = ""]) => words)
    .filter((words) => /^(stdio|serve|doctor|key|template|gc|manifest)\b/.test(words));
  expect(named.toSorted()).toEqual([
    "doctor",
    "gc",
    "key create NAME",
    "key list",
    "key revoke NAME",
    "manifest",
    "serve",
    "stdio",
    "template list",
    "template pull base",
  ]);
});

test("the commands that end by themselves say what they did", async () => {
  await using home = await openTestHome();
  const report = await run(["doctor", "--json"], home.path);
  expect(report.code).toBe(0);
  expect(JSON.parse(report.output)).toMatchObject({ isUsable: true, level: "userns-container" });
  const created = await run(["key", "create", "mine"], home.path);
  expect(created.output).toMatch(/^e2b_[0-9a-f]{40}\n$/);
  expect((await run(["key", "list"], home.path)).output).toMatch(/e2b_..….{4} .* mine\n$/);
  const foreign = ["key", "create", "theirs", "--team"];
  expect((await run([...foreign, "others"], home.path)).code).toBe(0);
  expect((await run(["key", "list"], home.path)).output).toMatch(
    / local {2}mine\n.* others {2}theirs\n$/,
  );
  expect((await run([...foreign, "no/team"], home.path)).code).toBe(64);
  await run(["key", "revoke", "theirs"], home.path);
  expect((await run(["key", "revoke", "mine"], home.path)).output).toMatch(/^revoked e2b_/);
  expect((await run(["key", "list"], home.path)).output).toBe("");
  expect((await run(["template", "list"], home.path)).output).toContain("base");
  const pulled = await run(["template", "pull", "base", "--if-missing"], home.path);
  expect(pulled).toEqual({ code: 0, output: "" });
  expect(await run(["gc"], home.path)).toEqual({ code: 0, output: "nothing to remove\n" });
  const manifest: unknown = JSON.parse((await run(["manifest"], home.path)).output);
  expect(manifest).toMatchObject({ version: 1, server: { name: "sandbox-mcp" } });
  expect((await run(["--version"], home.path)).output).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+\n$/);
  expect((await run(["--help"], home.path)).output).toContain("Usage: sandbox-mcp");
});

test("the E2B client example works with the key that the first serve prints", async () => {
  await using home = await openTestHome();
  await using serve = startProgram(["serve", "--port", "0", "--home", home.path]);
  let output = "";
  serve.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  await expect.poll(() => output, { timeout: 30_000 }).toMatch(/listening on http/);
  const url = /listening on (\S+)/.exec(output)?.[1] ?? "";
  const key = /shown once: (e2b_[0-9a-f]{40})/.exec(serve.stderr())?.[1] ?? "";
  const list = await fetch(`${url}/v2/sandboxes`, { headers: { "X-API-Key": key } });
  expect([list.status, await list.json()]).toEqual([200, []]);
});
