/** The start of a terminal whose relay does not answer. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { DEFAULT_PATH, type Command } from "../../../src/envd/bundled-program.ts";
import type { SilenceOptions } from "../../../src/envd/process/silence.ts";
import { startOnTerminal } from "../../../src/envd/process/terminal.ts";
import { ProcessConfigSchema } from "../../../src/gen/process/process_pb.ts";
import { launchOf } from "../../support/daemon/spawner.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Writes its pid to a file and is stopped until it is told to go on. */
function stoppedRelay(note: string): Command {
  const script = `echo $$ >${note}; kill -STOP $$; exec perl -f ${PERL_DIRECTORY}/terminal.pl "$@"`;
  return ["sh", "-c", script, "sh"];
}

function start(relay: Command, silence: SilenceOptions) {
  const words = ["echo", "shown"];
  return startOnTerminal({
    config: create(ProcessConfigSchema, { cmd: "echo", args: ["shown"] }),
    launch: launchOf(words, { env: { PATH: DEFAULT_PATH } }),
    size: { cols: 80, rows: 24 },
    relay,
    silence,
  });
}

test("the time in which all was frozen does not count for the start of a terminal", async () => {
  await using folder = await makeTempFolder();
  const note = join(folder.path, "pid");
  const starting = start(stoppedRelay(note), { replyMs: 2_000 });
  const pid = await stoppedPid(note);
  // As the freezer does, it holds the daemon's timers and the relay alike.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500);
  process.kill(pid, "SIGCONT");
  await expectShown(starting);
});

test("a relay that was stopped with all programs is waited for", async () => {
  await using folder = await makeTempFolder();
  const note = join(folder.path, "pid");
  let looks = 0;
  const areStopped = () => (looks += 1) > 0;
  const starting = start(stoppedRelay(note), { replyMs: 50, areStopped });
  const pid = await stoppedPid(note);
  await expect.poll(() => looks).toBeGreaterThan(30);
  process.kill(pid, "SIGCONT");
  await expectShown(starting);
});

test("a relay that does not answer is killed, and its caller is told", async () => {
  await using folder = await makeTempFolder();
  const starting = start(stoppedRelay(join(folder.path, "pid")), { replyMs: 50 });
  await expect(starting).rejects.toMatchObject({
    code: "deadline_exceeded",
    message: "the relay of terminals does not answer",
  });
});

async function stoppedPid(note: string): Promise<number> {
  await expect.poll(() => existsSync(note) && readFileSync(note, "utf8")).toMatch(/^[0-9]+\n$/);
  const pid = Number(readFileSync(note, "utf8"));
  await expect.poll(() => readFileSync(`/proc/${pid}/stat`, "latin1")).toContain(") T ");
  return pid;
}

async function expectShown(starting: ReturnType<typeof startOnTerminal>): Promise<void> {
  const started = await starting;
  const shown = started.outputs.map(async ({ stream }) => text(stream));
  expect(await Promise.all(shown)).toEqual(["shown\r\n"]);
  expect(await started.exited).toMatchObject({ exitCode: 0 });
  started.release();
}
