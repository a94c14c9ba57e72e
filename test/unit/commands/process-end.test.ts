/** A command that a signal stops ends what it does, and its exit code names the signal. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

const MODULE = pathToFileURL(
  join(import.meta.dirname, "../../../src/commands/program/process-end.ts"),
).href;

/** Work that fails when it is stopped, unless it hangs then; it reports that it began. */
function startWork(hangs: boolean) {
  const script = `
    import { untilStopped } from ${JSON.stringify(MODULE)};
    process.exitCode = await untilStopped((signal) => new Promise((resolve, reject) => {
      setInterval(() => undefined, 1000);
      signal.addEventListener("abort", () => {
        process.stdout.write("stopping\\n");
        if (!${hangs}) process.exitCode = reject(new Error("canceled")) ?? 1;
      });
      process.stdout.write("ready\\n");
    }));
    process.exit();`;
  return spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "pipe"],
  });
}

test.for([
  { name: "SIGHUP", code: 129 },
  { name: "SIGINT", code: 130 },
  { name: "SIGTERM", code: 143 },
] as const)("$name → $code", async ({ name, code }) => {
  const child = startWork(false);
  const [errors, exit] = [text(child.stderr), once(child, "exit")];
  await once(child.stdout, "data");
  child.kill(name);
  expect([await exit, await errors]).toEqual([[code, null], `sandbox-mcp: stopped by ${name}\n`]);
});

test("a second signal does not wait for the work", async () => {
  const child = startWork(true);
  const exit = once(child, "exit");
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  // It has taken the first one.
  await once(child.stdout, "data");
  child.kill("SIGINT");
  expect(await exit).toEqual([130, null]);
});

test("a server that is detached from its terminal goes on without it", async () => {
  const script = `
    import { hasTerminal, listenForStopSignals } from ${JSON.stringify(MODULE)};
    const stops = listenForStopSignals({ hangsUp: hasTerminal() });
    stops.signal.addEventListener("abort", () => process.exit(stops.received() === "SIGTERM" ? 0 : 1));
    process.on("SIGHUP", () => process.stdout.write("hung up\\n"));
    setInterval(() => process.stdout.write("ready\\n"), 1000);
    process.stdout.write("ready\\n");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exit = once(child, "exit");
  await once(child.stdout, "data");
  child.kill("SIGHUP");
  for await (const chunk of child.stdout) if (String(chunk).includes("hung up")) break;
  child.kill("SIGTERM");
  expect(await exit).toEqual([0, null]);
});
