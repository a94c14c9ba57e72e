/**
 * Sessions of one home that begin while others end, each in one way of a host: nothing is left of
 * any, and none meets what another one still has.
 */

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { openTestHome } from "../../support/home.ts";
import { openRawStdio } from "../../support/mcp/raw-stdio.ts";
import { startProgram, type TestProgram } from "../../support/program.ts";
import { tellCells } from "../../support/run/cells.ts";

const { random } = faultRun();
const SESSIONS = 60;
const LIMIT_MS = 20 * 60_000;
/** From the middle of a start to a sandbox that runs. */
const MAX_LIFE_MS = 1_200;
/** Hosts kill a server that does not end at once. */
const MAX_PATIENCE_MS = 400;
const MAX_GAP_MS = 150;
const QUIET = { SANDBOX_MCP_LOG_LEVEL: "error" };

const WAYS = ["stdin", "SIGTERM", "SIGKILL", "stdin and SIGKILL", "SIGTERM and SIGKILL"] as const;

async function end(
  { child }: TestProgram,
  way: (typeof WAYS)[number],
  patienceMs: number,
): Promise<void> {
  if (way.startsWith("stdin")) child.stdin?.end();
  if (way.startsWith("SIGTERM")) child.kill("SIGTERM");
  if (way.includes("and")) await delay(patienceMs);
  if (way.endsWith("SIGKILL")) child.kill("SIGKILL");
}

test(
  `R1 ${SESSIONS} overlapping sessions leave nothing`,
  { timeout: LIMIT_MS },
  async (context) => {
    const before = await takeCensus();
    const home = await openTestHome();
    const ended: Promise<readonly object[]>[] = [];
    for (let session = 1; session <= SESSIONS; session += 1) {
      const program = startProgram(["stdio", "--home", home.path], QUIET);
      const { stdin } = program.child;
      assert.ok(stdin);
      // It may be gone before its host has written.
      stdin.on("error", () => undefined);
      const raw = openRawStdio(stdin, program.stdout);
      // Most sessions end before they have the replies.
      const create = async (amount: number) => {
        await raw.initialize();
        const call = { name: "create_sandbox", arguments: {} };
        const calls = Array.from({ length: amount }, () => raw.request("tools/call", call));
        await Promise.all(calls);
      };
      create(random.below(3)).catch(() => undefined);
      await delay(random.below(MAX_LIFE_MS));
      const way = random.pick(WAYS);
      const patienceMs = random.below(MAX_PATIENCE_MS);
      const over = async () => {
        await end(program, way, patienceMs);
        const status = await program.exited();
        // A signal that comes before the first line of the program ends it by itself.
        const isExpected = status === 0 || way.includes(String(status));
        const facts = { session, way, status, stderr: program.stderr(), strays: raw.strays };
        return isExpected && facts.stderr === "" && facts.strays.length === 0 ? [] : [facts];
      };
      ended.push(over());
      await delay(random.below(MAX_GAP_MS));
    }
    expect((await Promise.all(ended)).flat()).toEqual([]);
    await using gc = startProgram(["gc", "--home", home.path], QUIET);
    expect([await gc.exited(), gc.stderr()]).toEqual([0, ""]);
    const left = await takeCensus(home.path);
    expect({ ...left, folders: [] }).toEqual(before);
    await home[Symbol.asyncDispose]();
    expect(await takeCensus(home.path)).toEqual(before);
    tellCells(context, SESSIONS);
  },
);
