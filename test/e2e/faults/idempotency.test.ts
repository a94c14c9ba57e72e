/** A create that is sent until it is answered makes one sandbox, whenever its service is killed. */

import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { OPERATIONS, POOLED } from "../../support/faults/fault-cases.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { PLAN_VARIABLE } from "../../support/faults/step-listener.ts";
import { hasPooled } from "../../support/faults/truth.ts";
import { PROGRAM } from "../../support/program.ts";
import { startServe, type TestServe } from "../../support/serve.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const { isWhole, random } = faultRun();
const KILLS = isWhole ? 40 : 4;
/** A create takes about half a second: kills come before, in and after it. */
const MAX_WAIT_MS = 900;
const LIMITS = { timeout: 20_000 + KILLS * 15_000 };
const LISTENER = resolve(import.meta.dirname, "../../support/faults/step-listener.ts");

/** Between each two steps of a create, of a new container and of a pooled one. */
const MOMENTS = [
  ...(OPERATIONS.find(({ name }) => name === "create")?.steps ?? []).map((at) => ({ at, pool: 0 })),
  ...POOLED.steps.filter((at) => at !== "pool.frozen").map((at) => ({ at, pool: 1 })),
];
const PLAYED = isWhole ? MOMENTS : [random.pick(MOMENTS), random.pick(MOMENTS)];

const idSchema = z.object({ sandboxID: z.string() });

async function send(serve: TestServe, round: number): Promise<string | undefined> {
  const reply = await fetch(`${serve.url}/v2/sandboxes`, {
    method: "POST",
    headers: {
      "x-api-key": serve.apiKey,
      "content-type": "application/json",
      "idempotency-key": `round-${round}`,
    },
    body: JSON.stringify({ templateID: "base", timeout: 600, metadata: { round: `${round}` } }),
  });
  return reply.status === 201 ? idSchema.parse(await reply.json()).sandboxID : undefined;
}

async function list(serve: TestServe, round: number): Promise<string[]> {
  const path = `/v2/sandboxes?state=running,paused&metadata=round%3D${round}`;
  const reply = await fetch(`${serve.url}${path}`, { headers: { "x-api-key": serve.apiKey } });
  return z
    .array(idSchema)
    .parse(await reply.json())
    .map(({ sandboxID }) => sandboxID);
}

/** The service again, after its end: the same request is answered, by one sandbox. */
async function expectOne(
  serve: TestServe,
  round: number,
  before: string | undefined,
): Promise<void> {
  let after: string | undefined;
  const isAnswered = async () => (after ??= await send(serve, round)) !== undefined;
  await expect.poll(isAnswered, { timeout: 30_000 }).toBe(true);
  expect(await list(serve, round)).toEqual([after]);
  expect(before ?? after).toBe(after);
  const path = `${serve.url}/sandboxes/${String(after)}`;
  await fetch(path, { method: "DELETE", headers: { "x-api-key": serve.apiKey } });
}

test.for(PLAYED)(
  "one sandbox for a key if the service is killed after $at, pool $pool",
  { timeout: 120_000 },
  async ({ at, pool }) => {
    expect(MOMENTS).toHaveLength(16);
    await using folder = await makeTempFolder();
    const plan = join(folder.path, "plan");
    const origin = {
      command: [process.execPath, `--import=${LISTENER}`, PROGRAM] as [string, ...string[]],
      environment: { [PLAN_VARIABLE]: plan },
    };
    const flags = ["--pool", `${pool}`];
    await using first = await startServe(flags, origin);
    const isReady = async () => pool === 0 || hasPooled(first.home);
    await expect.poll(isReady, { timeout: 30_000 }).toBe(true);
    // A pooled one is offered a moment after it is frozen.
    await delay(100);
    await writeFile(plan, JSON.stringify({ step: at, action: "kill" }));
    const before = await send(first, 0).catch(() => undefined);
    expect(await first.program.exited()).toBe("SIGKILL");
    await using again = await startServe(flags, { ...origin, earlier: first });
    await expectOne(again, 0, before);
  },
);

test(`one sandbox for each key over ${KILLS} kills`, LIMITS, async () => {
  await using first = await startServe(["--pool", "1"]);
  let serve: TestServe = first;
  let early = 0;
  for (let round = 0; round < KILLS; round += 1) {
    const asked = send(serve, round).catch(() => undefined);
    await delay(random.below(MAX_WAIT_MS));
    serve.program.child.kill("SIGKILL");
    await serve.program.exited();
    const before = await asked;
    serve = await startServe(["--pool", "1"], { earlier: first });
    await expectOne(serve, round, before);
    early += before === undefined ? 0 : 1;
  }
  process.stdout.write(`answered before the kill: ${early}\n`);
  await serve[Symbol.asyncDispose]();
});
