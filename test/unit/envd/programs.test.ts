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

test("an order to go on ends one to stop that is still under way: nothing is stopped again", async () => {
  const sent: string[] = [];
  const looked = Promise.withResolvers<void>();
  const signals: Signals = {
    send: (signal) => void sent.push(signal),
    async isAnyoneActive() {
      await looked.promise;
      return sent.length < 3;
    },
  };
  const programs = createPrograms(() => undefined, signals);
  const stopping = programs.stop();
  await programs.goOn();
  looked.resolve();
  await expect(stopping).rejects.toMatchObject({ code: "unavailable" });
  expect([programs.areStopped, ...sent]).toEqual([false, "SIGSTOP", "SIGCONT"]);
});

test("of two orders to stop the later one counts: the other one lets nothing go on", async () => {
  const { sent, signals } = fakeSignals(3);
  const programs = createPrograms(() => undefined, signals);
  const first = programs.stop();
  const second = programs.stop();
  await expect(first).rejects.toMatchObject({ code: "unavailable" });
  await second;
  expect(programs.areStopped).toBe(true);
  expect(sent).not.toContain("SIGCONT");
});

/** Its first thread has ended, and another one writes. */
const HEADLESS = `
import ctypes, os, threading
first = os.getpid()
def write():
    while open(f"/proc/{first}/task/{first}/stat").read().split(") ")[1][0] != "Z": pass
    while True: os.write(1, b"x")
threading.Thread(target=write).start()
ctypes.CDLL(None).pthread_exit(None)
`;

/** In a process namespace of its own, the first process of which is a shell. */
const SCRIPT = `
import { createPrograms } from "./src/envd/programs.ts";
import { spawn } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
const [file, ...words] = JSON.parse(process.env.PROGRAM);
const child = spawn(file, words);
let bytes = 0;
child.stdout.on("data", (chunk) => (bytes += chunk.length));
const tasks = "/proc/" + child.pid + "/task/";
const states = () => readdirSync(tasks).map((id) => readFileSync(tasks + id + "/stat", "utf8").split(" ")[2]);
const until = async (holds) => { while (!holds()) await new Promise((resolve) => setImmediate(resolve)); };
const programs = createPrograms(() => undefined);
await until(() => bytes > 0);
await programs.stop();
const stopped = states();
await programs.goOn();
const before = bytes;
await until(() => bytes > before + 1_000_000);
child.kill("SIGKILL");
console.log(stopped.toSorted().join(""), programs.areStopped);
process.exit(0);
`;

test.for([
  ["a shell", ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; done"], "T"],
  ["a thread whose first one has ended", ["python3", "-c", HEADLESS], "TZ"],
] as const)(
  "in a process namespace all but the daemon and the first process stop, and go on: %s",
  { timeout: 60_000 },
  async ([, program, states]) => {
    const inner = `${process.execPath} --input-type=module -e '${SCRIPT}'; exit $?`;
    const child = spawn(
      "unshare",
      ["--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inner],
      {
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, PROGRAM: JSON.stringify(program) },
      },
    );
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString("utf8")));
    const [code] = await once(child, "close");
    expect([code, text]).toEqual([0, `${states} false\n`]);
  },
);
