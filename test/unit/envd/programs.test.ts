import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { createPrograms, type Signals } from "../../../src/envd/programs.ts";

/** Programs that stand after so many orders. */
function fakeSignals(roundsUntilStill: number) {
  const sent: string[] = [];
  let rounds = 0;
  const signals: Signals = {
    send: (signal) => void sent.push(signal),
    isAnyoneActive: async () => (rounds += 1) < roundsUntilStill,
  };
  return { sent, signals };
}

test("programs are ordered to stop until all stand, and clients are cut first", async () => {
  const { sent, signals } = fakeSignals(3);
  const programs = createPrograms(() => void sent.push("cut"), signals);
  const stopping = programs.stop();
  expect(programs.areStopped).toBe(true);
  await stopping;
  expect(sent).toEqual(["cut", "SIGSTOP", "SIGSTOP", "SIGSTOP"]);
  await programs.goOn();
  expect([programs.areStopped, sent.at(-1)]).toEqual([false, "SIGCONT"]);
});

/** In a process namespace of its own, the first process of which is a shell. */
const SCRIPT = `
import { createPrograms } from "./src/envd/programs.ts";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
const child = spawn("sh", ["-c", "i=0; while :; do i=$((i+1)); echo $i; done"]);
let bytes = 0;
child.stdout.on("data", (chunk) => (bytes += chunk.length));
const stateOf = () => readFileSync("/proc/" + child.pid + "/stat", "utf8").split(" ")[2];
const until = async (holds) => { while (!holds()) await new Promise((resolve) => setImmediate(resolve)); };
const programs = createPrograms(() => undefined);
await until(() => bytes > 0);
await programs.stop();
const stopped = stateOf();
await programs.goOn();
const before = bytes;
await until(() => bytes > before + 1_000_000);
child.kill("SIGKILL");
console.log(stopped, programs.areStopped);
process.exit(0);
`;

test(
  "in a process namespace all but the daemon and the first process stop, and go on",
  { timeout: 60_000 },
  async () => {
    const inner = `${process.execPath} --input-type=module -e '${SCRIPT}'; exit $?`;
    const child = spawn(
      "unshare",
      ["--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inner],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString("utf8")));
    const [code] = await once(child, "close");
    expect([code, text]).toEqual([0, "T false\n"]);
  },
);
