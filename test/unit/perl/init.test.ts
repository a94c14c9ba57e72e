/** The init of a container, as process 1 of a namespace of its own. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";

const NAMESPACE = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];
const INIT = ["perl", join(PERL_DIRECTORY, "init.pl"), process.arch];
const LIMIT_MS = 20_000;

function start(command: readonly string[]) {
  const [file = "", ...words] = command;
  return spawn(file, words, { stdio: "pipe", timeout: LIMIT_MS, killSignal: "SIGKILL" });
}

function startInit(program: readonly string[]) {
  return start(["unshare", ...NAMESPACE, ...INIT, ...program]);
}

async function endOf(child: ReturnType<typeof start>) {
  child.stdin.end();
  const ended = once(child, "close");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await ended;
  return { code, stdout, stderr };
}

test.for([
  { name: "its exit code", program: ["sh", "-c", "echo $PPID; exit 7"], code: 7, stdout: "1\n" },
  { name: "success", program: ["true"], code: 0, stdout: "" },
  { name: "the signal that ended it", program: ["sh", "-c", "kill -9 $$"], code: 137, stdout: "" },
])("the init ends with the program: $name", async ({ program, code, stdout }) => {
  expect(await endOf(startInit(program))).toEqual({ code, stdout, stderr: "" });
});

test("a program that cannot be started is told", async () => {
  const { code, stderr } = await endOf(startInit(["/no/such/program"]));
  expect(stderr).toMatch(/^sandbox-mcp: .*\/no\/such\/program: No such file or directory\n$/);
  expect(code).toBe(71);
});

test("the exit code is known where ended children were ignored before", async () => {
  const ignoring = ["perl", "-e", "$SIG{CHLD} = 'IGNORE'; exec @ARGV"];
  const child = start(["unshare", ...NAMESPACE, ...ignoring, ...INIT, "sh", "-c", "exit 7"]);
  expect(await endOf(child)).toMatchObject({ code: 7 });
});

/** A process that process 1 inherits ends. It is there for `kill` until it is collected. */
const ORPHAN = `
  pipe my $in, my $out;
  if (!fork) {
    my $parent = $$;
    if (!fork) { select undef, undef, undef, 0.01 while getppid == $parent; syswrite $out, $$ }
    exit 0;
  }
  wait;
  sysread $in, my $orphan, 10;
  kill 0, $orphan and select undef, undef, undef, 0.01 for 1 .. 500;
  print kill(0, $orphan) ? "stays" : "collected";
`;

test("the init collects what others leave", async () => {
  const end = await endOf(startInit(["perl", "-e", ORPHAN]));
  expect(end).toEqual({ code: 0, stdout: "collected", stderr: "" });
});

test.for(["HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "WINCH"])(
  "SIG%s to process 1 reaches the program",
  async (signal) => {
    const script = `trap 'exit 3' ${signal}; kill -${signal} 1; while :; do sleep 0.01; done`;
    expect(await endOf(startInit(["sh", "-c", script]))).toMatchObject({ code: 3 });
  },
);

test("no signal of process 1 is blocked or ignored in the program", async () => {
  const show = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"];
  const [inside, outside] = await Promise.all([endOf(startInit(show)), endOf(start(show))]);
  expect(inside.stdout).toBe(outside.stdout);
});

test("the init keeps none of the streams of the program", async () => {
  const script = "while [ -e /proc/1/fd/$1 ]; do sleep 0.01; done; echo closed";
  const ends = [0, 1, 2].map(async (fd) => endOf(startInit(["sh", "-c", script, "sh", `${fd}`])));
  for (const end of await Promise.all(ends)) expect(end).toMatchObject({ stdout: "closed\n" });
});
