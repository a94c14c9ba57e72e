import { execFile } from "node:child_process";
import { readlink, stat, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { runPerl } from "../../support/daemon/perl-program.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** The program says with which fault it was started, its mask and its words. */
const PROGRAM = ["sh", "-c", 'echo "${FAULT-none}|$(umask)|$*"', "sh", "a b"];

async function enter(home: string, options: { arch?: string; directory?: string } = {}) {
  const { arch = process.arch, directory = PERL_DIRECTORY } = options;
  const { code, stdout, stderr } = await runPerl("user-namespace", {
    words: ["FAULT", arch, home, "true 0", "false 0", ...PROGRAM],
    directory,
  });
  return { code, stdout: stdout.toString(), stderr };
}

test("a home where nothing can be locked is told, and the program goes on", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "file");
  await writeFile(home, "");
  const { stdout: mask } = await promisify(execFile)("sh", ["-c", "umask"]);
  expect(await enter(home)).toEqual({
    code: 0,
    stdout: `${home}/namespace.lock: Not a directory|${mask.trim()}|a b\n`,
    stderr: "",
  });
});

test("a home is made with what is missing above it, as for a new account", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "share/data/home");
  const { stdout } = await enter(home);
  expect(stdout).toMatch(/^ids: /);
  expect((await stat(home)).mode & 0o777).toBe(0o700);
});

test("an unknown processor is told, and the program goes on", async () => {
  await using folder = await makeTempFolder();
  const { stdout } = await enter(folder.path, { arch: "mips" });
  expect(stdout).toContain("no support for mips|");
});

test("ids that cannot be given are told, and the program goes on", async () => {
  await using folder = await makeTempFolder();
  const { code, stdout } = await enter(folder.path);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^ids: .*\|a b\n$/) });
});

test("ids that set-id programs cannot give are told by the reason", async () => {
  await using folder = await makeTempFolder();
  const program = join(PERL_DIRECTORY, "user-namespace.pl");
  const perl = ["perl", program, "FAULT", process.arch, folder.path, "true 0", "false 0"];
  const words = ["--no-new-privs", ...perl, ...PROGRAM];
  const { stdout } = await promisify(execFile)("setpriv", words);
  expect(stdout).toMatch(/^newuidmap has no rights here: start .* without no_new_privs, .*\|a b$/m);
});

test("a limit of namespaces is told as one, and the program goes on", async () => {
  await using folder = await makeTempFolder();
  const limited = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"';
  const program = join(PERL_DIRECTORY, "user-namespace.pl");
  const perl = ["perl", program, "FAULT", process.arch, folder.path, "true 0", "true 0"];
  const words = ["--user", "--map-root-user", "sh", "-c", limited, "sh", ...perl, ...PROGRAM];
  const { stdout } = await promisify(execFile)("unshare", words);
  expect(stdout).toMatch(/^user namespace: No space .*: allow more with sysctl user\.max_user_/);
});

/**
 * Becomes its words under a filter of system calls that refuses namespaces of mounts and lets those
 * of users be made, as AppArmor of Ubuntu does. Structures: linux/filter.h.
 */
const REFUSE_MOUNTS = String.raw`
  my ($prctl, $unshare) = "${process.arch}" eq "x64" ? (157, 272) : (167, 97);
  my @filter = ([0x20, 0, 0, 0], [0x15, 0, 3, $unshare], [0x20, 0, 0, 16],
    [0x45, 0, 1, 0x20000], [6, 0, 0, 0x50001], [6, 0, 0, 0x7fff0000]);
  my $program = join "", map { pack "SCCL", @$_ } @filter;
  syscall($prctl, 22, 2, pack "Sx6P", scalar @filter, $program) and die "$!";
  exec @ARGV;
`;

test("a namespace without capabilities is told as one, and the program stays outside", async () => {
  await using folder = await makeTempFolder();
  const program = join(PERL_DIRECTORY, "user-namespace.pl");
  const perl = ["perl", program, "FAULT", process.arch, folder.path, "true 0", "true 0"];
  const words = ["-we", REFUSE_MOUNTS, ...perl, "sh", "-c", 'echo "$FAULT|$(readlink $1)"', "sh"];
  const { stdout } = await promisify(execFile)("perl", [...words, "/proc/self/ns/user"]);
  const [fault, namespace] = stdout.trim().split("|");
  expect(fault).toMatch(
    /^user namespace: the system refuses capabilities in it: a security module/,
  );
  expect(namespace).toBe(await readlink("/proc/self/ns/user"));
});

test("lines of processes that are gone, or that are no such lines, are passed over", async () => {
  await using folder = await makeTempFolder();
  const lines = ["999999999 1", `${process.pid} 1`, "1", "{}", "-1 5", "", `x ${process.pid} 1`];
  await writeFile(join(folder.path, "namespace"), lines.join("\n"));
  const { stdout } = await enter(folder.path);
  expect(stdout).toMatch(/^ids: /);
});

test.for([
  { name: "is missing", env: {}, home: userInfo().homedir },
  { name: "is empty", env: { HOME: "" }, home: userInfo().homedir },
  { name: "is relative", env: { HOME: "given" }, home: userInfo().homedir },
  { name: "is given", env: { HOME: "/given" }, home: "/given" },
])("a HOME that $name is that of the user before the namespace", async ({ env, home }) => {
  const words = ["FAULT", "mips", "/nonexistent", "true 0", "false 0", "printenv", "HOME"];
  const { stdout } = await runPerl("user-namespace", { words, env });
  expect(stdout.toString()).toBe(`${home}\n`);
});
