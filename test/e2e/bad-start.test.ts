/** A start that cannot work is one line on stderr that says what to do, and a fitting exit code. */

import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PROGRAM, startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

let home: string;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "smcp-"));
});

afterAll(async () => {
  await rm(home, { recursive: true, force: true });
});

test.for([
  { name: "an unknown command", words: ["dance"], code: 64, says: /"dance" is no command/ },
  { name: "an unknown flag", words: ["serve", "--dance"], code: 64, says: /--dance/ },
  { name: "a port out of range", words: ["serve", "--port", "99999"], code: 64, says: /--port/ },
  {
    name: "a log file in a directory that is not there",
    words: ["stdio", "--log-file", "/nonexistent/log"],
    code: 64,
    says: /^sandbox-mcp: log file \/nonexistent\/log: .*--log-file$/m,
  },
  {
    name: "a runtime that is not there",
    words: ["stdio", "--runtime", "/nonexistent/runc"],
    code: 69,
    says: /\/nonexistent\/runc/,
  },
  {
    name: "a runtime of a name that nothing has",
    words: ["serve", "--runtime", "no-such-runtime"],
    code: 69,
    says: /runtime: no-such-runtime: .*--runtime/,
  },
  {
    name: "a runtime that is a directory",
    words: ["serve", "--runtime", "/etc"],
    code: 69,
    says: /runtime: \/etc: .*--runtime/,
  },
  {
    name: "a namespace that is not there",
    words: ["serve", "--port", "0", "--egress", "/nonexistent/netns"],
    code: 78,
    says: /--egress \/nonexistent\/netns: ENOENT.*\/run\/netns\/NAME/,
  },
  {
    name: "a namespace that is a plain file",
    words: ["stdio", "--egress", "/etc/passwd"],
    code: 78,
    says: /--egress \/etc\/passwd is no namespace: /,
  },
  {
    name: "tools that are not there, over HTTP",
    words: ["serve", "--port", "0", "--tools", "read_file,no_such_tool"],
    code: 64,
    says: /--tools: no tool is called no_such_tool: /,
  },
  {
    name: "tools that are not there, over stdio",
    words: ["stdio", "--tools", "no_such_tool"],
    code: 64,
    says: /--tools: no tool is called no_such_tool: /,
  },
  {
    name: "a certificate that is not there",
    words: ["serve", "--tls-cert", "/nonexistent/a.pem", "--tls-key", "/etc/passwd"],
    code: 78,
    says: /--tls-cert \/nonexistent\/a\.pem: ENOENT/,
  },
  {
    name: "a key of a certificate that is a directory",
    words: ["serve", "--tls-cert", "/etc/passwd", "--tls-key", "/etc"],
    code: 78,
    says: /--tls-key \/etc: EISDIR/,
  },
  {
    name: "certificates that are a directory",
    words: ["serve", "--port", "0", "--allow-host-template", "--ca", "/etc"],
    code: 78,
    says: /--ca \/etc: not a file/,
  },
  {
    name: "a team that cannot be one",
    words: ["key", "create", "mine", "--team", "A B"],
    code: 64,
    says: /"A B" cannot be a team/,
  },
  {
    name: "a Dockerfile that is not there",
    words: ["template", "build", "/etc", "--file", "/nonexistent/Dockerfile"],
    code: 69,
    says: /\/nonexistent\/Dockerfile cannot be read: ENOENT: /,
  },
  {
    name: "a Dockerfile that is no text",
    words: ["template", "build", "/etc", "--file", "/bin/sh"],
    code: 64,
    says: /\/bin\/sh is not in UTF-8/,
  },
  {
    name: "an archive that is not there",
    words: ["template", "import", "/nonexistent/image.tar"],
    code: 69,
    says: /the archive cannot be opened: ENOENT: .*\/nonexistent\/image\.tar/,
  },
  {
    name: "an archive that is a directory",
    words: ["template", "import", "/etc"],
    code: 78,
    says: /\/etc is no file/,
  },
  ...["build /nonexistent/base", "pull registry.test/a/host:1", "import /code-interpreter.tar"].map(
    (words) => ({
      name: `a name that nobody typed and a built-in template has: ${words}`,
      words: ["template", ...words.split(" ")],
      code: 64,
      says: /(base|host|code-interpreter) is the name of a built-in template: .* --name \1$/m,
    }),
  ),
  {
    name: "an action that is none",
    words: ["template", "dance"],
    code: 64,
    says: /template dance: no such action: /,
  },
  {
    name: "an action that names nothing",
    words: ["template", "show"],
    code: 64,
    says: /template show: nothing is named: /,
  },
  {
    name: "another name for a built-in template",
    words: ["template", "pull", "base", "--name", "mine"],
    code: 64,
    says: /--name: base is built under its own name/,
  },
  {
    name: "a limit of a built-in template",
    words: ["template", "pull", "base", "--memory-mb", "512"],
    code: 64,
    says: /--memory-mb: a flag of template pull IMAGE, not of template pull base/,
  },
  {
    name: "an image that is pulled only where it is missing",
    words: ["template", "pull", "docker.io/library/none:1", "--if-missing"],
    code: 64,
    says: /--if-missing: a flag of template pull base and code-interpreter/,
  },
  {
    name: "an isolation that cannot be proven",
    words: ["stdio", "--require-isolation", "gvisor", "--runtime", "runc"],
    code: 78,
    says: /gvisor/,
  },
  {
    // `auto` takes the first runtime that works, which is not the one of this level.
    name: "an isolation whose runtime is not named",
    words: ["stdio", "--require-isolation", "gvisor"],
    code: 78,
    says: /weaker than the required gvisor: .*--runtime runsc/,
  },
  {
    name: "a listener beyond loopback without a key",
    words: ["serve", "--host", "0.0.0.0", "--port", "0"],
    code: 78,
    says: /key/,
  },
  {
    name: "serve without a base template",
    words: ["serve", "--port", "0"],
    code: 69,
    says: /template pull base/,
  },
  {
    name: "a home that is a file",
    words: ["stdio", "--home", "/etc/passwd"],
    code: 78,
    says: /home \/etc\/passwd is no directory: .*--home/,
  },
  {
    name: "a home that is the directory of something else",
    words: ["serve", "--home", "/etc"],
    code: 78,
    says: /home \/etc is not empty and is no home of sandbox-mcp: .*--home/,
  },
  {
    name: "a home where the kernel has no folders",
    words: ["stdio", "--home", "/proc/none/home"],
    code: 78,
    says: /home \/proc\/none\/home: [^:]+: [^:]+: choose another directory with --home$/m,
  },
  {
    name: "a home in a path that no package tool takes",
    words: ["stdio"],
    below: 'a"b\nc',
    code: 78,
    says: /home .*without control characters/,
  },
  {
    // In its place Node gives the program this character for each byte that is none.
    name: "a home in a path that is no UTF-8",
    words: ["serve"],
    below: "a\ufffdb",
    code: 78,
    says: /home .* cannot be used: choose a path of UTF-8 /,
  },
  {
    name: "a home in a path that is too long",
    words: ["serve"],
    below: "y/".repeat(600),
    code: 78,
    says: /too long.*490 bytes/,
  },
])("$name", async ({ words, below = "", code, says }) => {
  const given = words.includes("--home") ? [] : ["--home", join(home, below)];
  await using program = startProgram([...words, ...given], {
    SANDBOX_MCP_LOG_LEVEL: "silent",
    SANDBOX_MCP_RUNTIME: "auto",
  });
  expect(await program.exited()).toBe(code);
  expect(program.stderr()).toMatch(says);
  expect(program.stderr().trimEnd().split("\n")).toHaveLength(1);
});

test.for([
  { machine: "new", first: ["key", "list"] },
  { machine: "found fit before", first: ["doctor"] },
])("a /run that cannot be written to, machine $machine", async ({ first }) => {
  const mounts = 'mount -t tmpfs -o ro none /run && exec "$@"';
  const inside = ["unshare", "-m", "--propagation", "private", "sh", "-c", mounts, "sh"] as const;
  const command = [...inside, process.execPath, PROGRAM] as const;
  // What was found of the machine is remembered in a home.
  await using folder = await makeTempFolder();
  await using before = startProgram([...first, "--home", folder.path]);
  expect(await before.exited()).toBe(0);
  const words = ["serve", "--home", folder.path, "--port", "0"];
  await using program = startProgram(words, {}, command);
  expect(await program.exited()).toBe(69);
  expect(program.stderr()).toBe(
    "sandbox-mcp: this machine cannot isolate: run directory: /run/sandbox-mcp: mount -t tmpfs tmpfs /run\n",
  );
});

/** Runs one command for each size, on a disk of its own that has only so many KiB left. */
const ON_FULL_DISKS = `
cd "$1" && shift
for left in 0 4 16 32 200; do
  mount -t tmpfs -o size=2m none . && cd . && mkdir lost+found || exit
  dd if=/dev/zero of=lost+found/ballast bs=1k count=$((2048 - left)) 2> /dev/null
  "$@" > /dev/null
  echo "code $?"
  cd / && umount "$OLDPWD" && cd "$OLDPWD" || exit
done
`;

test.for(["key create mine", "key list", "template list", "trust", "gc"])(
  "a full disk is told to who runs %s on it",
  async (words) => {
    await using folder = await makeTempFolder();
    const command = [process.execPath, PROGRAM, ...words.split(" "), "--home", folder.path];
    const inside = ["-m", "--propagation", "private", "sh", "-c", ON_FULL_DISKS, "sh"];
    const said = spawnSync("unshare", [...inside, folder.path, ...command], { encoding: "utf8" });
    expect(said.stdout.match(/^code \d+$/gm)).toHaveLength(5);
    expect(said.stdout).toMatch(/^code 69$/m);
    expect(said.stdout).not.toMatch(/^code (?!0$|69$)/m);
    expect(said.stderr).not.toContain("stack");
  },
);

test.for([
  {
    what: "a limit of open files that is too low",
    script: 'ulimit -n 64 && exec "$@"',
    says: /isolate: open files: at most 64: ulimit -Hn 256, or more\n$/,
  },
  {
    what: "fewer rights",
    script: 'exec setpriv --bounding-set -sys_admin "$@"',
    says: /isolate: root: user id 0 without CAP_SYS_ADMIN: /,
  },
  {
    what: "without the right to enter a container",
    script: 'exec setpriv --bounding-set -sys_chroot "$@"',
    says: /isolate: root: user id 0 without CAP_SYS_CHROOT: /,
  },
  {
    what: "a user namespace that maps too few ids",
    script: 'exec unshare --user --map-root-user "$@"',
    says: /isolate: root: user id 0 of a user namespace that maps too few ids: /,
  },
  {
    what: "a /proc of processes alone",
    script: `exec unshare -mpf --kill-child sh -c 'mount -t proc -o subset=pid proc /proc && exec "$@"' sh "$@"`,
    says: /isolate: proc: \/proc\/sys is not there: .*ProcSubset=all/,
  },
])("$what, on a machine found fit before", async ({ script, says }) => {
  await using folder = await makeTempFolder();
  await using before = startProgram(["doctor", "--home", folder.path]);
  expect(await before.exited()).toBe(0);
  const weaker = ["sh", "-c", script, "sh", process.execPath, PROGRAM] as const;
  const words = ["serve", "--home", folder.path, "--port", "0"];
  await using program = startProgram(words, {}, weaker);
  expect([await program.exited(), program.stderr()]).toEqual([69, expect.stringMatching(says)]);
  expect(program.stderr().split("\n")).toHaveLength(2);
});

test.for([
  {
    name: "a limit of file sizes",
    script: "ulimit -f 100",
    says: /ulimit -f unlimited, LimitFSIZE/,
  },
  {
    name: "a limit of processes",
    script: "prlimit --nproc=1 --pid $$",
    // runc reports no reason when the first process cannot start another one.
    runtime: "crun",
    says: /the service cannot start any more processes(?:: | → )kill .* ulimit -u/,
  },
  {
    name: "a disk without inodes",
    script: 'mount -t tmpfs -o nr_inodes=100 none "$place"',
    says: /no space left(?:: | → )delete /,
  },
])("doctor tells of $name, and what to do", async ({ script, says, runtime = "auto" }) => {
  await using folder = await makeTempFolder();
  const line = `place=$1 && shift && ${script} && exec "$@"`;
  const inside = ["-m", "--propagation", "private", "sh", "-c", line, "sh", folder.path];
  const flags = ["--home", folder.path, "--runtime", runtime];
  const doctor = [process.execPath, PROGRAM, "doctor", ...flags];
  const env = { PATH: process.env["PATH"], SANDBOX_MCP_LOG_LEVEL: "silent" };
  const said = spawnSync("unshare", [...inside, ...doctor], { encoding: "utf8", env });
  expect(said.stdout + said.stderr).toMatch(says);
  expect(said.stdout + said.stderr).not.toMatch(/try another runtime|see the checks above/);
});

test("a log file that is a pipe without a reader", async () => {
  await using folder = await makeTempFolder();
  const pipe = join(folder.path, "pipe");
  expect(spawnSync("sh", ["-c", 'mkfifo "$1"', "sh", pipe]).status).toBe(0);
  const words = ["key", "create", "--home", join(folder.path, "home"), "--log-file", pipe];
  await using program = startProgram(words);
  expect([await program.exited(), program.stderr()]).toEqual([
    64,
    expect.stringMatching(/^sandbox-mcp: log file \S+: ENXIO: .*--log-file\n$/),
  ]);
});
