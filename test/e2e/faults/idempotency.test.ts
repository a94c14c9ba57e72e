/** A create that is sent until it is answered makes one sandbox, whenever its service is killed. */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { faultRun } from "../../support/fault-run.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const { isWhole, random } = faultRun();
const KILLS = isWhole ? 40 : 4;
/** A create takes about half a second: kills come before, in and after it. */
const MAX_WAIT_MS = 900;
const LIMITS = { timeout: 20_000 + KILLS * 15_000 };

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

test(`one sandbox for each key over ${KILLS} kills`, LIMITS, async () => {
  await using first = await startServe(["--pool", "1"]);
  let serve: TestServe = first;
  const answers: string[] = [];
  for (let round = 0; round < KILLS; round += 1) {
    const asked = send(serve, round).catch(() => undefined);
    await delay(random.below(MAX_WAIT_MS));
    serve.program.child.kill("SIGKILL");
    await serve.program.exited();
    const before = await asked;
    serve = await startServe(["--pool", "1"], { earlier: first });
    let after: string | undefined;
    const isAnswered = async () => (after ??= await send(serve, round)) !== undefined;
    await expect.poll(isAnswered, { timeout: 30_000 }).toBe(true);
    expect(await list(serve, round)).toEqual([after]);
    expect(before ?? after).toBe(after);
    answers.push(before === undefined ? "after" : "before");
    const path = `${serve.url}/sandboxes/${String(after)}`;
    await fetch(path, { method: "DELETE", headers: { "x-api-key": serve.apiKey } });
  }
  process.stdout.write(
    `answered before the kill: ${answers.filter((one) => one === "before").length}\n`,
  );
  await serve[Symbol.asyncDispose]();
});
