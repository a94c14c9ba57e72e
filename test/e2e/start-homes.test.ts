/** The home of a start: made by what needs one, and by nothing else. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { ORDINARY_RUNTIME } from "../support/level.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

test("a home that was typed wrong is not made by what has nothing to do in a new one", async () => {
  await using folder = await makeTempFolder();
  const wrong = join(folder.path, "wrong");
  const trust = ["trust", "trust install"];
  const commands = ["key list", "key revoke a", "template list", "template show a", ...trust];
  for (const words of [...commands, "template remove a", "template export a b"]) {
    await using program = startProgram([...words.split(" "), "--home", wrong]);
    expect([words, await program.exited(), program.stderr()]).toEqual([
      words,
      78,
      `sandbox-mcp: home ${wrong}: no such directory: name the home of a service with --home\n`,
    ]);
  }
  await using program = startProgram(["gc", "--home", wrong]);
  const [output, exitCode] = [text(program.stdout), program.exited()];
  expect([await output, await exitCode, program.stderr()]).toEqual([
    "nothing to remove\n",
    0,
    `sandbox-mcp: home ${wrong}: no such directory\n`,
  ]);
  expect(await readdir(folder.path)).toEqual([]);
});

test("a command that was typed wrong makes no home", async () => {
  await using folder = await makeTempFolder();
  const words = ["key", "key revoked a", "template", "template pull", "template bild ."];
  const place = join(folder.path, "home");
  for (const typed of [...words, "trust instal", "key create a b"]) {
    await using program = startProgram([...typed.split(" "), "--home", place]);
    expect([typed, await program.exited()]).toEqual([typed, 64]);
  }
  expect(await readdir(folder.path)).toEqual([]);
});

test("a name that leads nowhere or cannot be one makes no home", async () => {
  await using folder = await makeTempFolder();
  const place = join(folder.path, "home");
  for (const [code, ...typed] of [
    [64, "key", "create", "a\nb"],
    [64, "template", "pull", "A::b"],
    [64, "template", "pull", "a", "--if-missing"],
    [64, "template", "pull", "base", "--name", "a"],
    [69, "template", "import", "/nonexistent"],
    [69, "template", "build", "/nonexistent"],
  ] as const) {
    await using program = startProgram([...typed, "--home", place]);
    expect([typed, await program.exited()]).toEqual([typed, code]);
  }
  expect(await readdir(folder.path)).toEqual([]);
});

test.for([{ flags: [] }, { flags: ["--json"] }, { flags: ["--store-gb", "8"] }])(
  "doctor with $flags looks at the machine and makes no home",
  async ({ flags }) => {
    await using folder = await makeTempFolder();
    const wrong = join(folder.path, "wrong", "home");
    await using program = startProgram(["doctor", ...flags, "--home", wrong]);
    const [output, exitCode] = [text(program.stdout), program.exited()];
    expect([await exitCode, program.stderr()]).toEqual([0, ""]);
    const said = await output;
    expect(said).toContain(`${wrong} does not exist yet`);
    expect(said).toMatch(/usable: |"isUsable": true/);
    expect(said).not.toContain(".sandbox-mcp-trial-");
    expect(await readdir(folder.path)).toEqual([]);
  },
);

test("an ordinary user's doctor makes no home either", async () => {
  await using user = await openOrdinaryUser({ ids: true });
  const wrong = join(user.data, "wrong");
  const before = await readdir(user.data);
  await using program = startProgram(["doctor", "--home", wrong], ORDINARY_RUNTIME, user.program);
  const [output, exitCode] = [text(program.stdout), program.exited()];
  expect([await exitCode, program.stderr()]).toEqual([0, ""]);
  expect(await output).toContain(`warning  home: ${wrong} does not exist yet`);
  expect(await readdir(user.data)).toEqual(before);
});

test("a umask that takes rights from the owner keeps nobody from a home", async () => {
  await using user = await openOrdinaryUser({ ids: false });
  const place = join(user.data, "umask");
  const [first, ...rest] = user.program;
  const closed = ["sh", "-c", 'umask 777; exec "$@"', "sh", ...rest.slice(-2)];
  const command = [first, ...rest.slice(0, -2), ...closed] as const;
  for (const words of ["key create mine", "key list"]) {
    await using program = startProgram([...words.split(" "), "--home", place], {}, command);
    expect([words, await program.exited(), program.stderr()]).toEqual([
      words,
      0,
      expect.not.stringContaining("cannot"),
    ]);
  }
});

test("a home below a directory that another user has closed", async () => {
  await using user = await openOrdinaryUser({ ids: false });
  await using folder = await makeTempFolder();
  const closed = join(folder.path, "home");
  for (const words of ["stdio", "serve", "gc", "key list", "template list", "trust"]) {
    await using program = startProgram([...words.split(" "), "--home", closed], {}, user.program);
    expect([words, await program.exited(), program.stderr()]).toEqual([
      words,
      78,
      expect.stringMatching(/^sandbox-mcp: .*EACCES: .*: .*--home\n$/),
    ]);
  }
  await using doctor = startProgram(["doctor", "--home", closed], {}, user.program);
  expect([await doctor.exited(), doctor.stderr()]).toEqual([69, ""]);
});
