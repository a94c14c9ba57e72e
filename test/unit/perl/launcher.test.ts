import { spawnSync } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const CALLER = [process.arch, String(process.pid)];

async function launch(steps: readonly string[], cwd?: string) {
  const options = { words: [...CALLER, ...steps], ...(cwd !== undefined && { cwd }) };
  const { code, stdout, stderr } = await runPerl("launcher", options);
  return { code, stdout: stdout.toString(), stderr };
}

const silent = { code: 0, stdout: "", stderr: "" };
const refused = (text: string) => ({ code: 111, stdout: "", stderr: `launcher: ${text}\n` });

test("steps are done in their order, up to the end that they name", async () => {
  await using folder = await makeTempFolder();
  const steps = ["chdir", folder.path, "mkdir", "a", "chdir", "a", "write", "file", "x y\n"];
  expect(await launch([...steps, "exit", "mkdir", "never"])).toEqual(silent);
  expect(await readFile(join(folder.path, "a/file"), "utf8")).toBe("x y\n");
  expect((await stat(join(folder.path, "a"))).mode & 0o777).toBe(0o755);
  await expect(stat(join(folder.path, "a/never"))).rejects.toMatchObject({ code: "ENOENT" });
});

test("no module is loaded, which would take as long as all that it does", () => {
  const program = join(PERL_DIRECTORY, "launcher.pl");
  const script = `END { print join ' ', sort grep { /\\.pm$/ } keys %INC } do $0`;
  const words = ["-f", "-e", `$0 = shift @ARGV; ${script}`, program, ...CALLER, "exit"];
  const { status, stdout, stderr } = spawnSync("perl", words, { encoding: "utf8" });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "", stderr: "" });
});

test("an empty text is written, as that of a machine without name servers", async () => {
  await using folder = await makeTempFolder();
  expect(await launch(["write", "file", "", "exit"], folder.path)).toEqual(silent);
  expect(await readFile(join(folder.path, "file"), "utf8")).toBe("");
});

test("words of a program reach it as they are", async () => {
  const words = ["a b", "", "$HOME; exit 3", "--", "'", "é"];
  const { code, stdout } = await launch(["exec", "printf", "[%s]", ...words]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: words.map((word) => `[${word}]`).join("") });
});

test("sockets are descriptors 3 and 4 of what it becomes, for their owner alone", async () => {
  await using folder = await makeTempFolder();
  const script = "test -S /proc/self/fd/3 && test -S /proc/self/fd/4 && test ! -e /proc/self/fd/5";
  const steps = ["listen", "one", "listen", "two", "exec", "sh", "-c", script];
  expect(await launch(steps, folder.path)).toEqual(silent);
  const one = await stat(join(folder.path, "one"));
  expect({ isSocket: one.isSocket(), mode: one.mode & 0o777 }).toEqual({
    isSocket: true,
    mode: 0o600,
  });
});

test("both limits are set, and the hard one bounds what may not be had", async () => {
  const [stack, open] = ["3", "7"];
  const told = ["exec", "sh", "-c", "ulimit -Ss; ulimit -Sn; ulimit -Hn"];
  const low = ["limit", stack, "1048576", "8388608", "limit", open, "20", "30"];
  expect(await launch([...low, ...told])).toEqual({ ...silent, stdout: "1024\n20\n30\n" });
  // Nobody may have files without a limit: the kernel has one of its own.
  const more = ["limit", stack, "8388608", "8388608", "limit", open, "unlimited", "unlimited"];
  expect(await launch([...low, ...more, ...told])).toEqual({
    ...silent,
    stdout: "8192\n30\n30\n",
  });
});

test("addresses are at random again, whoever started it", async () => {
  const words = [join(PERL_DIRECTORY, "launcher.pl"), ...CALLER];
  const read = ["normal", "exec", "cat", "/proc/self/personality"];
  const started = spawnSync("setarch", ["-R", "perl", ...words, ...read], { encoding: "utf8" });
  expect(started).toMatchObject({ status: 0, stdout: "00000000\n", stderr: "" });
});

test("an output that points nowhere says nothing, and a step after it can still fail aloud", async () => {
  expect(await launch(["null", "1", "exec", "echo", "x"])).toEqual(silent);
  const text = "exec /no/such: No such file or directory";
  expect(await launch(["null", "2", "exec", "/no/such"])).toEqual(refused(text));
});

test("a program that was opened runs without its path", async () => {
  const steps = ["open", "/bin/sh", "run", "another name", "-c", 'echo "$0"'];
  expect(await launch(steps)).toEqual({ ...silent, stdout: "another name\n" });
});

test("why there is no user namespace is said", async () => {
  const reason = process.getuid?.() === 0 ? "Invalid argument" : "Operation not permitted";
  const steps = ["ids", "0", String(2 ** 32 - 1), "1", "exit"];
  expect(await launch(steps)).toEqual(refused(`user namespace: ${reason}`));
});

test.for([
  [["jump"], "unknown step jump"],
  [["Exit"], "unknown step Exit"],
  [["chdir", "/no/such", "exit"], "chdir /no/such: No such file or directory"],
  [["mkdir", "/proc/x", "exit"], "mkdir /proc/x: No such file or directory"],
  [["write", "/no/such/file", "text", "exit"], "/no/such/file: No such file or directory"],
  [["listen", "/no/such/socket", "exit"], "bind /no/such/socket: No such file or directory"],
  [["enter", "/no/such", "exit"], "/no/such: No such file or directory"],
  [["netns", "/dev/null", "exit"], "network /dev/null: Invalid argument"],
  [["open", "/no/such", "exit"], "/no/such: No such file or directory"],
  [["mkdir"], "mkdir : No such file or directory"],
] as const)("%j is refused", async ([steps, text]) => {
  expect(await launch(steps)).toEqual(refused(text));
});

test("no steps at all are done at once", async () => {
  expect(await launch([])).toEqual(silent);
});

test("the child of another process does nothing", async () => {
  const words = [process.arch, "1", "exec", "echo", "x"];
  const { code, stdout, stderr } = await runPerl("launcher", { words });
  expect({ code, stdout: stdout.toString(), stderr }).toEqual({
    code: 111,
    stdout: "",
    stderr: "",
  });
});
