/** A front killed at each step of a create and of an end; then the API server and the kubelet. */

import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { Sandbox } from "e2b";
import { POD_STEPS } from "../steps.ts";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";

/** Preloaded into a front: does what a plan says. */
export const STEP_LISTENER = pathToFileURL(
  resolve(import.meta.dirname, "../../support/faults/step-listener.ts"),
).href;
/** No orphan is left after a minute. */
const SETTLE_MS = 60_000;

export async function runFaults(world: World): Promise<void> {
  const { create, restrict, claim, kill } = POD_STEPS;
  for (const step of [...create, ...restrict, ...claim, ...kill]) {
    await world.check(`front killed at ${step}`, () => killAt(world, step));
  }
  for (const step of POD_STEPS.once) {
    await world.check(`front killed at ${step}, with a key`, () => killKeyedAt(world, step));
  }
}

/** The same create is sent again, to another front, until it is answered: its key made one sandbox. */
async function killKeyedAt(world: World, step: string): Promise<string> {
  const plan = join(world.directory, `plan-${step}`);
  await using front = world.startFront(`victim-${step.replace(".", "-")}`, {
    STEP_PLAN: plan,
    NODE_OPTIONS: `--import=${STEP_LISTENER}`,
  });
  await front.ready();
  rmSync(`${plan}.hit`, { force: true });
  writeFileSync(plan, JSON.stringify({ step, action: "kill" }));
  const send = async (url: string) => {
    const reply = await fetch(`${url}/v2/sandboxes`, {
      method: "POST",
      headers: {
        "x-api-key": world.apiKey,
        "content-type": "application/json",
        "idempotency-key": `killed-${step.replace(".", "-")}`,
      },
      body: JSON.stringify({ templateID: "base", timeout: 300 }),
    });
    const text = await reply.text();
    if (reply.status !== 201) throw new Error(`${reply.status}: ${text}`);
    return String(Object(JSON.parse(text)).sandboxID);
  };
  await send(front.url).catch(() => undefined);
  if (!existsSync(`${plan}.hit`)) throw new Error("the step did not come");
  const killedAtMs = performance.now();
  let answer = "";
  await eventually(async () => {
    answer = await send(world.url);
  }, SETTLE_MS);
  const seconds = ((performance.now() - killedAtMs) / 1000).toFixed(1);
  await eventually(() => expectSettled(world), SETTLE_MS);
  const other = clientOf(world.url, world.apiKey);
  const ids: string[] = [];
  for await (const { sandboxId } of all(other)) ids.push(sandboxId);
  for (const id of ids) await Sandbox.kill(id, other);
  if (ids.join() !== answer) throw new Error(`answered ${answer}, running: ${ids.join()}`);
  await eventually(() => expectNothing(world.admin), SETTLE_MS);
  return `answered after ${seconds} s`;
}

async function killAt(world: World, step: string): Promise<string> {
  const plan = join(world.directory, `plan-${step}`);
  await using front = world.startFront(`victim-${step.replace(".", "-")}`, {
    STEP_PLAN: plan,
    NODE_OPTIONS: `--import=${STEP_LISTENER}`,
  });
  await front.ready();
  const options = clientOf(front.url, world.apiKey);
  const isEnd = POD_STEPS.kill.some((name) => name === step);
  const before = isEnd ? await Sandbox.create({ ...options, timeoutMs: 300_000 }) : undefined;
  const isClaim = POD_STEPS.claim.some((name) => name === step);
  if (!isEnd && !isClaim) await awaitEmptyPool(world);
  if (isClaim) await awaitPool(world);
  rmSync(`${plan}.hit`, { force: true });
  writeFileSync(plan, JSON.stringify({ step, action: "kill" }));
  const isRestricted = POD_STEPS.restrict.some((name) => name === step);
  const rules = isRestricted ? { network: { denyOut: ["192.0.2.0/24"] } } : {};
  const acting = before === undefined ? Sandbox.create({ ...options, ...rules }) : before.kill();
  await acting.catch(() => undefined);
  if (!existsSync(`${plan}.hit`)) throw new Error("the step did not come");
  const killedAtMs = performance.now();
  await eventually(() => expectSettled(world), SETTLE_MS);
  const seconds = ((performance.now() - killedAtMs) / 1000).toFixed(1);
  const other = clientOf(world.url, world.apiKey);
  for await (const { sandboxId } of all(other)) await Sandbox.kill(sandboxId, other);
  await eventually(() => expectNothing(world.admin), SETTLE_MS);
  await eventually(() => expectNoPolicy(world), SETTLE_MS);
  return `consistent after ${seconds} s`;
}

async function expectNoPolicy({ admin }: World): Promise<void> {
  const left = await namesOf(admin, "networkpolicies", "egress");
  if (left.length > 0) throw new Error(`policies left: ${left.join(" ")}`);
}

/** Records are those of running sandboxes alone, each with its Pod, and no Pod is without one. */
export async function expectSettled({ admin, url, apiKey }: World): Promise<void> {
  const records = await namesOf(admin, "configmaps", "sandbox");
  const pods = await namesOf(admin, "pods", "sandbox");
  const listed: string[] = [];
  for await (const { sandboxId } of all(clientOf(url, apiKey))) listed.push(sandboxId);
  const texts = [records, pods, listed].map((names) => names.toSorted().join(" "));
  if (new Set(texts).size !== 1) throw new Error(texts.join(" | "));
}

export async function* all(options: ReturnType<typeof clientOf>) {
  const paginator = Sandbox.list(options);
  while (paginator.hasNext) yield* await paginator.nextItems();
}

export function clientOf(url: string, apiKey: string) {
  return { apiKey, apiUrl: url, sandboxUrl: url, requestTimeoutMs: 60_000 };
}

async function awaitPool({ admin }: World): Promise<void> {
  await eventually(async () => {
    if ((await namesOf(admin, "pods", "pool")).length === 0) throw new Error("the pool is empty");
  });
  await delay(3_000);
}

/** Creates that must start a Pod of their own need a pool without one that runs. */
async function awaitEmptyPool({ admin }: World): Promise<void> {
  for (const name of await namesOf(admin, "pods", "pool")) {
    await admin.call({
      method: "DELETE",
      path: `pods/${name}`,
      body: { apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds: 0 },
    });
  }
}
