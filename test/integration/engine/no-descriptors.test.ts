/** Programs of the host that cannot be started, because this process has no descriptor left. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const RUN_PROGRAM = resolve(import.meta.dirname, "../../../src/engine/host/run-program.ts");

/** Takes every descriptor, runs a program, gives them back, and runs it again. */
const SCRIPT = `
import { closeSync, openSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { runProgram } from ${JSON.stringify(RUN_PROGRAM)};
const uncaught = [];
process.on("uncaughtException", (error) => uncaught.push(String(error)));
const taken = [];
try {
  for (;;) taken.push(openSync("/dev/null"));
} catch {}
const failure = await runProgram(["true"]).catch(({ code, message, hint }) => ({ code, message, hint }));
await setImmediate();
for (const descriptor of taken) closeSync(descriptor);
const output = await runProgram(["echo", "again"]);
console.log(JSON.stringify({ failure, uncaught, output }));
`;

test("a program without descriptors for its streams is one error with its remedy", async () => {
  const node = [process.execPath, "--input-type=module", "--eval", SCRIPT];
  const { stdout } = await promisify(execFile)("prlimit", ["--nofile=64:64", ...node]);
  expect(JSON.parse(stdout)).toEqual({
    failure: {
      code: "unavailable",
      message: "true: the service has too many open files",
      hint: "close connections and streams, or start the service with a higher limit of open files: ulimit -n, LimitNOFILE of systemd",
    },
    uncaught: [],
    output: "again\n",
  });
});
