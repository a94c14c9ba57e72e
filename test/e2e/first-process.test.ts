/** The program as process 1 of a container, where the kernel gives it what others leave. */

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { openRawStdio } from "../support/mcp/raw-stdio.ts";
import { PROGRAM, startProgram, type TestProgram } from "../support/program.ts";
import { startServe } from "../support/serve.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const NAMESPACE = ["unshare", "-pf", "--mount-proc", "--kill-child"] as const;
const ALONE = [...NAMESPACE, process.execPath, PROGRAM] as const;
const SANDBOXES = 2;

test("serve collects the processes of ended sandboxes and ends by SIGTERM as any other", async () => {
  const serve = await startServe([], { command: [...ALONE] });
  const first = firstProcess(serve.program);
  try {
    const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
    for (let count = 0; count < SANDBOXES; count += 1) {
      const sandbox = await Sandbox.create("base", options);
      expect((await sandbox.commands.run("echo here")).stdout).toBe("here\n");
      await sandbox.kill();
    }
    await expect.poll(() => statesOfChildren(first), { timeout: 10_000 }).not.toContain("Z");
    // The signal of `docker stop`.
    process.kill(first, "SIGTERM");
    expect(await serve.program.exited()).toBe(0);
  } finally {
    serve.program.child.kill("SIGKILL");
    await serve[Symbol.asyncDispose]();
  }
});

test("stdio answers and ends as in any other process", async () => {
  await using home = await openTestHome();
  await using program = startProgram(["stdio", "--home", home.path, "--log-level", "warn"], {}, [
    ...ALONE,
  ]);
  const { stdin } = program.child;
  const raw = openRawStdio(stdin!, program.stdout);
  await raw.initialize();
  expect(await raw.request("tools/list")).toHaveProperty("tools");
  stdin?.end();
  expect(await program.exited()).toBe(0);
  expect({ strays: raw.strays, stderr: program.stderr() }).toEqual({ strays: [], stderr: "" });
});

test("a stdio server with a wrong flag ends with its exit code and its one line", async () => {
  await using program = startProgram(["stdio", "--port", "1"], {}, [...ALONE]);
  expect(await program.exited()).toBe(64);
  expect(program.stderr()).toMatch(/^sandbox-mcp: .*\n$/);
});

/** What process 1 forwards has come before USR1: it takes pending signals in their order. */
const COUNT_SIGNALS = `
  sub show { open my $file, ">", "$ARGV[0].part"; print $file @_; close $file; rename "$ARGV[0].part", $ARGV[0] }
  my $count = 0;
  $SIG{INT} = $SIG{HUP} = sub { $name = shift; kill USR1 => 1 if ++$count == 1 };
  $SIG{USR1} = sub { show("$name $count"); exit };
  show("ready");
  sleep 1 while 1;
`;
const LEADER = ["setsid", "--ctty"];

test.for([
  { name: "Ctrl-C, process 1 leads the session", prefix: LEADER, told: "INT 1" },
  { name: "Ctrl-C, process 1 is in a group of others", prefix: [], told: "INT 1" },
  { name: "the end of the terminal", prefix: LEADER, told: "HUP 1" },
])("the program gets a terminal's signal once: $name", async ({ prefix, told }) => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "told");
  writeFileSync(path, "");
  const init = ["perl", join(PROGRAM, "../init.pl"), process.arch];
  const words = [...NAMESPACE, ...prefix, ...init, "perl", "-e", COUNT_SIGNALS, path];
  const command = words.map((word) => `'${word}'`).join(" ");
  const terminal = spawn("script", ["--quiet", "--command", command, "/dev/null"]);
  const read = (): string => readFileSync(path, "utf8");
  try {
    await expect.poll(read, { timeout: 20_000 }).toBe("ready");
    if (told.startsWith("INT")) terminal.stdin.write("\u0003");
    else terminal.kill("SIGKILL");
    await expect.poll(read, { timeout: 20_000 }).toBe(told);
  } finally {
    terminal.kill("SIGKILL");
  }
});

/** Process 1 of the container, by its number here. */
function firstProcess({ child }: TestProgram): number {
  return Number(childrenOf(child.pid ?? 0)[0]);
}

function childrenOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.split(" ").filter((word) => word !== "");
}

/** A letter of each, as ps(1) has it. */
function statesOfChildren(pid: number): string[] {
  const texts = childrenOf(pid).map((child) => readFileSync(`/proc/${child}/stat`, "utf8"));
  return texts.map((text) => text.slice(text.lastIndexOf(")") + 2)[0] ?? "");
}
