/** Creates with an `Idempotency-Key` at several fronts at once, on the real API server. */

import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";
import { all, clientOf, expectSettled, STEP_LISTENER } from "./faults.ts";

const AT_ONCE = 20;
const KEYS = 20;
const ASKERS = 4;
const SETTLE_MS = 60_000;
const POLL_MS = 250;

const madeSchema = z.looseObject({ sandboxID: z.string() });
const refusedSchema = z.looseObject({ error_code: z.string() });

interface Reply {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly body: unknown;
}

/** A create at one front, with a key. */
async function send(
  { apiKey }: World,
  url: string,
  { key, body = {} }: { readonly key: string; readonly body?: object },
): Promise<Reply> {
  const reply = await fetch(`${url}/v2/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify({ templateID: "base", timeout: 300, ...body }),
  });
  const parsed: unknown = await reply.json();
  return { status: reply.status, retryAfter: reply.headers.get("retry-after"), body: parsed };
}

const idOf = ({ status, body }: Reply): string => {
  if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`);
  return madeSchema.parse(body).sandboxID;
};

/** Ids of all running sandboxes, in order. */
async function running(world: World): Promise<string[]> {
  const ids: string[] = [];
  for await (const { sandboxId } of all(clientOf(world.url, world.apiKey))) ids.push(sandboxId);
  return ids.toSorted();
}

async function killAll(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  for (const id of await running(world)) await Sandbox.kill(id, options);
  await eventually(() => expectNothing(world.admin), SETTLE_MS);
}

export async function runKeys(world: World): Promise<void> {
  const urls = world.fronts.map(({ url }) => url);
  const urlOf = (index: number) => urls[index % urls.length] ?? world.url;
  await world.check(`${AT_ONCE} requests with one key at two fronts: one sandbox`, async () => {
    const key = "one-key";
    const sends = Array.from({ length: AT_ONCE }, (_, index) => send(world, urlOf(index), { key }));
    const replies = await Promise.all(sends);
    const [made, ...more] = replies.filter(({ status }) => status === 201);
    if (made === undefined) throw new Error(JSON.stringify(replies));
    const waiting = replies.filter(({ status }) => status === 409);
    const words = waiting.map(
      ({ retryAfter, body }) => `${refusedSchema.parse(body).error_code} ${retryAfter}`,
    );
    const sandboxId = idOf(made);
    // A request that came after the create was done is answered with its sandbox.
    const others = more.filter((reply) => idOf(reply) !== sandboxId).length;
    if (waiting.length + more.length !== AT_ONCE - 1 || others > 0) {
      throw new Error(JSON.stringify(replies));
    }
    if (words.some((word) => word !== "idempotency_in_progress 1")) throw new Error(words.join());
    const again = await Promise.all(urls.map((url) => send(world, url, { key })));
    const ids = again.map((reply) => idOf(reply));
    if ([...ids, ...(await running(world))].some((id) => id !== sandboxId)) {
      throw new Error(`made ${sandboxId}, then ${ids.join()}`);
    }
    return `${waiting.length} told to wait, ${more.length} answered with the same`;
  });
  await world.check("the key of another request is refused at both fronts", async () => {
    const body = { timeout: 301 };
    for (const url of urls) {
      const reply = await send(world, url, { key: "one-key", body });
      const word = refusedSchema.parse(reply.body).error_code;
      if (reply.status !== 422 || word !== "idempotency_request_mismatch") {
        throw new Error(JSON.stringify(reply));
      }
    }
    await killAll(world);
  });
  await world.check(`${KEYS} keys at once, each asked again at the other front`, async () => {
    const sendAll = async (shift: number) =>
      Promise.all(
        Array.from({ length: KEYS }, (_, index) =>
          send(world, urlOf(index + shift), { key: `key-${index}` }),
        ),
      );
    const beganMs = performance.now();
    const first = (await sendAll(0)).map((reply) => idOf(reply));
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
    const again = (await sendAll(1)).map((reply) => idOf(reply));
    const listed = await running(world);
    if (first.join() !== again.join() || first.toSorted().join() !== listed.join()) {
      throw new Error(`${first.join()} | ${again.join()} | ${listed.join()}`);
    }
    await killAll(world);
    return `${seconds} s`;
  });
  await world.check(
    "a front killed while it creates for a key, asked at both others meanwhile",
    async () => killWhileAsked(world),
  );
  await world.check("keys: a ConfigMap for each, without a secret", async () => {
    const names = await namesOf(world.admin, "configmaps", "creation");
    const objects = await Promise.all(
      names.map(async (name) => world.admin.call({ method: "GET", path: `configmaps/${name}` })),
    );
    const text = JSON.stringify(objects);
    if (names.length < KEYS + 2) throw new Error(`${names.length} ConfigMaps`);
    if (/token/i.test(text) || text.includes(world.apiKey)) throw new Error(text.slice(0, 2_000));
    return `${names.length} ConfigMaps`;
  });
}

/** Clients ask two other fronts from the first moment on, as a balancer sends retries. */
async function killWhileAsked(world: World): Promise<string> {
  const key = "killed-while-asked";
  const plan = join(world.directory, "plan-keys");
  await using front = world.startFront("victim-keys", {
    STEP_PLAN: plan,
    NODE_OPTIONS: `--import=${STEP_LISTENER}`,
  });
  await front.ready();
  rmSync(`${plan}.hit`, { force: true });
  // After the step the sandbox is one that its key names, and that no client was told of.
  writeFileSync(plan, JSON.stringify({ step: "creation.bound", action: "kill" }));
  const victim = send(world, front.url, { key }).catch(() => undefined);
  await eventually(async () => {
    const names = await namesOf(world.admin, "configmaps", "sandbox");
    if (names.length === 0) throw new Error("it has not begun");
  });
  const beganMs = performance.now();
  const answers = await Promise.all(
    Array.from({ length: ASKERS }, async (_, index) => {
      const target = world.fronts[index % world.fronts.length]?.url ?? world.url;
      const endMs = performance.now() + SETTLE_MS;
      for (;;) {
        const reply = await send(world, target, { key });
        if (reply.status === 201) return idOf(reply);
        if (reply.status !== 409 || performance.now() > endMs) {
          throw new Error(JSON.stringify(reply));
        }
        await delay(POLL_MS);
      }
    }),
  );
  const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
  await victim;
  if (!existsSync(`${plan}.hit`)) throw new Error("the step did not come");
  await eventually(() => expectSettled(world), SETTLE_MS);
  const ids = await running(world);
  if (ids.length !== 1 || answers.some((id) => id !== ids[0])) {
    throw new Error(`answered ${answers.join()}, running ${ids.join()}`);
  }
  await killAll(world);
  return `answered after ${seconds} s`;
}
