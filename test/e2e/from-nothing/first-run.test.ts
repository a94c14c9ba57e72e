/**
 * Every first create works: of the packed and installed program, in an empty home, as root and as an
 * ordinary user, by one and five servers at once, killed anywhere and started again.
 */

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { errorText } from "../../../src/common/errors.ts";
import { endChild } from "../../support/end-child.ts";
import { FIRST_STEPS } from "../../support/faults/fault-cases.ts";
import { randomRound, runRound, type Round } from "../../support/faults/first-round.ts";
import {
  installPackage,
  ordinaryPerson,
  rootPerson,
  type Installed,
  type Person,
} from "../../support/faults/first-run.ts";
import { openOrdinaryUser, type OrdinaryUser } from "../../support/ordinary-user.ts";
import { createRandom } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";

/** `npm run first-run`: each step, and as many random rounds as are asked for. */
const IS_WHOLE = process.env["FIRST_RUN"] === "all";
const ROUNDS = Number(process.env["FIRST_RUN_ROUNDS"] ?? (IS_WHOLE ? 20 : 0));
/** Loops that keep a processor busy beside all rounds. */
const BUSY_LOOPS = Number(process.env["FIRST_RUN_BUSY"] ?? 0);
/** Each of the random rounds is then one of so many stdio servers, none of which is killed. */
const SERVERS = Number(process.env["FIRST_RUN_SERVERS"] ?? 0);
const SEED = Number(process.env["FIRST_RUN_SEED"] ?? Date.now() % 1_000_000_000);
const ROUND_LIMIT_MS = 600_000;

const stack = new AsyncDisposableStack();
let installed: Installed;
let user: OrdinaryUser;
let root: Person;

beforeAll(async () => {
  process.stdout.write(`FIRST_RUN_SEED=${SEED}\n`);
  installed = stack.use(await installPackage());
  user = stack.use(await openOrdinaryUser({ ids: true }));
  const folder = await mkdtemp(join(tmpdir(), "smcp-first-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  root = rootPerson(folder);
  for (let count = 0; count < BUSY_LOOPS; count += 1) {
    const loop = spawn("sh", ["-c", "while :; do :; done"], { stdio: "ignore" });
    stack.defer(() => endChild(loop));
  }
}, ROUND_LIMIT_MS);
afterAll(() => stack.disposeAsync());

/** Few, for every run: the worst cases that were seen. */
const NEVER = { at: "never" } as const;
const STDIO = { kind: "stdio", servers: 1, creates: 2, kill: NEVER } as const;
const ROUNDS_OF_ROOT: readonly Round[] = [
  { ...STDIO, servers: 5, creates: 1 },
  { ...STDIO, servers: 2, kill: { at: "step", step: "layer.synced" } },
];

test.for(ROUNDS_OF_ROOT)(
  "E58 first run as root: $servers servers, kill $kill.at",
  { timeout: ROUND_LIMIT_MS },
  async (round, context) => {
    const count = await runRound(installed, root, round);
    expect(count).toBeGreaterThan(0);
    tellCells(context, count);
  },
);

test(
  "E58 first run as an ordinary user whose home has base alone",
  { timeout: ROUND_LIMIT_MS },
  async (context) => {
    const round = { ...STDIO, servers: 3, creates: 1 };
    const count = await runRound(installed, ordinaryPerson(user), round);
    expect(count).toBe(3);
    tellCells(context, count);
  },
);

describe.runIf(IS_WHOLE)("in the whole run", () => {
  test.for(FIRST_STEPS)(
    "E58 first run of two servers, one of them killed at %s",
    { timeout: ROUND_LIMIT_MS },
    async (step, context) => {
      const round: Round = { ...STDIO, servers: 2, kill: { at: "step", step } };
      const count = await runRound(installed, root, round);
      expect(count).toBeGreaterThan(0);
      tellCells(context, count);
    },
  );

  test(
    "E58 first run of serve, alone and beside stdio",
    { timeout: ROUND_LIMIT_MS },
    async (context) => {
      let count = 0;
      for (const person of [ordinaryPerson(user), root]) {
        for (const servers of [3, 1]) {
          count += await runRound(installed, person, { ...STDIO, kind: "serve", servers });
        }
      }
      expect(count).toBe(16);
      tellCells(context, count);
    },
  );
});

test.runIf(ROUNDS > 0)(
  `E58 first run in ${ROUNDS} random rounds beside ${BUSY_LOOPS} busy loops`,
  { timeout: ROUND_LIMIT_MS * Math.max(1, ROUNDS) },
  async (context) => {
    const random = createRandom(SEED);
    const failed: string[] = [];
    let count = 0;
    for (let index = 0; index < ROUNDS; index += 1) {
      const person = random.once(4) ? ordinaryPerson(user) : root;
      const round = SERVERS > 0 ? { ...STDIO, servers: SERVERS, creates: 1 } : randomRound(random);
      const startedMs = performance.now();
      const text = `round ${index + 1} of ${ROUNDS}: ${person.name} ${JSON.stringify(round)}`;
      try {
        count += await runRound(installed, person, round);
      } catch (error) {
        // The others show whether it was this round alone.
        failed.push(`${text}: ${errorText(error)}`);
        process.stdout.write(`${failed.at(-1)}\n`);
      }
      const seconds = Math.round((performance.now() - startedMs) / 1_000);
      process.stdout.write(`${text}: ${seconds} s, ${failed.length} failed so far\n`);
    }
    expect(failed).toEqual([]);
    expect(count).toBeGreaterThanOrEqual(ROUNDS);
    tellCells(context, count);
  },
);
