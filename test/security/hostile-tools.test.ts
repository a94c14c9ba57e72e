/**
 * Whatever a replaced daemon answers to a tool, its own call alone fails: within its time, in text that is
 * short and shows no control characters. FUZZ_SEED repeats a run.
 */

import { expect, test } from "vitest";
import { answerHostile } from "../support/hostile/hostile-bodies.ts";
import { startHostileHost } from "../support/hostile/hostile-host.ts";
import { createRandom, type Random } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const CALLS = IS_WHOLE_RUN ? 1_200 : 120;
const LANES = 6;
const MAX_CHARACTERS = 120_000;
const CONTROL = /(?![\n\t])[\p{Cc}\u202e\u2028]/u;

const processId = (random: Random) => `p_${random.pick([1, 7, 2 ** 31, 2 ** 32 - 1])}`;
type Tool = readonly [name: string, input: (random: Random) => object];
const TOOLS: readonly Tool[] = [
  ["run_process", () => ({ cmd: "x", wait_seconds: 1, stdin: "abc" })],
  ["run_process", () => ({ cmd: "x", wait_seconds: 1, pty: true })],
  ["run_code", () => ({ code: "1", wait_seconds: 1 })],
  ["get_process_output", (random) => ({ process_id: processId(random), wait_seconds: 1 })],
  ["send_input", (random) => ({ process_id: processId(random), data: "x" })],
  ["send_signal", (random) => ({ process_id: processId(random), signal: "SIGTERM" })],
  ["list_processes", () => ({})],
  ["list_directory", () => ({ path: "/", depth: 2 })],
  ["stat_path", () => ({ path: "/a" })],
  ["make_directory", () => ({ path: "/a" })],
  ["move_path", () => ({ source: "/a", destination: "/b" })],
  ["remove_path", () => ({ path: "/a" })],
  ["read_file", (random) => ({ path: "/a", offset: random.pick([0, 5, 1_000_000]) })],
  ["write_file", () => ({ path: "/a", content: "x" })],
  ["edit_file", () => ({ path: "/a", old_string: "x", new_string: "y" })],
  ["compose_files", () => ({ sources: ["/a", "/b"], destination: "/c" })],
  ["search_files", () => ({ path: "/", pattern: "x" })],
  ["watch_path", () => ({ path: "/", wait_seconds: 0 })],
  ["watch_path", (random) => ({ watcher_id: `w${random.below(9)}`, wait_seconds: 0 })],
];

test("E41 no answer of a daemon costs a tool more than its own call", async (context) => {
  await using host = await startHostileHost();
  const random = createRandom(SEED);
  host.answer((path, response) => answerHostile(random, path, response));
  const uncaught: string[] = [];
  const note = (error: Error) => void uncaught.push(String(error.stack));
  process.on("uncaughtExceptionMonitor", note);
  const wrong: string[] = [];
  let left = CALLS;
  async function runLane(): Promise<void> {
    while (left > 0) {
      left -= 1;
      const [tool, input] = random.pick(TOOLS);
      const { text, fields } = await host.call(tool, input(random));
      const found = CONTROL.exec(text + JSON.stringify(fields));
      if (found !== null) wrong.push(`${tool} shows ${JSON.stringify(found[0])}`);
      if (text.length > MAX_CHARACTERS) wrong.push(`${tool} replies ${text.length} characters`);
      if (text.includes("Input validation error")) wrong.push(`${tool} was not called: ${text}`);
    }
  }
  await Promise.all(Array.from({ length: LANES }, runLane));
  process.off("uncaughtExceptionMonitor", note);
  tellCells(context, CALLS);
  expect(uncaught, `FUZZ_SEED=${SEED}`).toEqual([]);
  expect(wrong, `FUZZ_SEED=${SEED}`).toEqual([]);
});
