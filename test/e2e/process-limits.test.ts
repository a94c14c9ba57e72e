/** Limits of the shell or unit that started a service, and those of programs in its sandboxes. */

import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { PROGRAM } from "../support/program.ts";
import { startServe } from "../support/serve.ts";

/** Soft limits alone: not every root may raise the hard ones. */
const LOW = ["cpu=3600:", "stack=1048576:", "memlock=65536:", "fsize=3000000000:", "nproc=900:"];
const TOLD = "-St -Ss -Sl -Sf -Su";

/** What a command prints in a sandbox of a service that was started by these words. */
async function runUnder(words: readonly [string, ...string[]], script: string): Promise<string> {
  const command = [...words, process.execPath, PROGRAM] as const;
  await using serve = await startServe(["--pool", "0"], { command });
  const { apiKey, url } = serve;
  const sandbox = await Sandbox.create("base", { apiKey, apiUrl: url, sandboxUrl: url });
  const { stdout } = await sandbox.commands.run(script);
  await sandbox.kill();
  return stdout;
}

test("sandboxes do not have the limits of their service", async () => {
  const words = ["prlimit", ...LOW.map((limit) => `--${limit}`)] as const;
  const stdout = await runUnder(words, `for flag in ${TOLD}; do ulimit $flag; done`);
  const [time, stack, memory, size, processes] = stdout.trim().split("\n");
  expect({ time, stack, memory, size }).toEqual({
    time: "unlimited",
    stack: "8192",
    memory: "8192",
    size: "unlimited",
  });
  expect(processes).not.toBe("900");
});

test("nor its real-time scheduling, which no limit of processors holds, nor its fixed addresses", async () => {
  const script = `cat /proc/self/personality; python3 -c "import os; print(os.sched_getscheduler(0))"`;
  expect(await runUnder(["chrt", "-r", "5", "setarch", "-R"], script)).toBe("00000000\n0\n");
});
