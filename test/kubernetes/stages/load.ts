/** Creates from the pool, of Pods of their own, and many at once. */

import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";
import { clientOf } from "./faults.ts";
import { spread } from "./images.ts";

const ROUNDS = 5;
const AT_ONCE = [20, 50];
const COMMANDS = 30;

export async function runLoad(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  await world.check("creates one after the other", async () => {
    const durations: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const beganMs = performance.now();
      const sandbox = await Sandbox.create(options);
      durations.push(Math.round(performance.now() - beganMs));
      const { stdout } = await sandbox.commands.run("id -un");
      if (stdout !== "user\n") throw new Error(stdout);
      await sandbox.kill();
    }
    return `${durations.join(", ")} ms`;
  });
  await world.check("claims of pooled Pods", async () => {
    const durations: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await eventually(async () => expectWarm(world));
      const beganMs = performance.now();
      const sandbox = await Sandbox.create(options);
      durations.push(Math.round(performance.now() - beganMs));
      await sandbox.kill();
    }
    return `${durations.join(", ")} ms`;
  });
  for (const count of AT_ONCE) {
    await world.check(`${count} creates at once`, async () => createAtOnce(world, count));
  }
  await world.check("commands one after the other", async () => {
    const sandbox = await Sandbox.create(options);
    const durations: number[] = [];
    for (let round = 0; round < COMMANDS; round += 1) {
      const beganMs = performance.now();
      await sandbox.commands.run("true");
      durations.push(performance.now() - beganMs);
    }
    await sandbox.kill();
    return spread(durations);
  });
  await world.check("100 MB up and down", async () => {
    const sandbox = await Sandbox.create(options);
    const bytes = new Uint8Array(100_000_000).fill(7);
    const beganMs = performance.now();
    await sandbox.files.write("/home/user/large", bytes.buffer);
    const betweenMs = performance.now();
    const read = await sandbox.files.read("/home/user/large", { format: "bytes" });
    const endMs = performance.now();
    await sandbox.kill();
    if (read.length !== bytes.length) throw new Error(`${read.length} bytes`);
    const [up, down] = [betweenMs - beganMs, endMs - betweenMs].map((ms) => Math.round(ms));
    return `up ${up} ms, down ${down} ms`;
  });
  await world.check("nothing is left", () => eventually(() => expectNothing(world.admin)));
}

/** All are used, listed and killed at once. */
async function createAtOnce(world: World, count: number): Promise<string> {
  const options = clientOf(world.url, world.apiKey);
  const beganMs = performance.now();
  const creates = await Promise.allSettled(
    Array.from({ length: count }, async () => timed(Sandbox.create(options))),
  );
  const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
  const created = creates.flatMap((outcome) =>
    outcome.status === "fulfilled" ? [outcome.value] : [],
  );
  if (created.length < count) {
    await Promise.allSettled(created.map(async ({ value }) => value.kill()));
    const faults = creates.flatMap((outcome) =>
      outcome.status === "rejected" ? [String(outcome.reason)] : [],
    );
    throw new Error(`${created.length} of ${count} in ${seconds} s: ${faults.join("; ")}`);
  }
  const sandboxes = created.map(({ value }) => value);
  const commands = await Promise.all(
    sandboxes.map(async (sandbox) => timed(sandbox.commands.run("true"))),
  );
  // The watch of the front that answers may be some milliseconds behind.
  const list = await eventually(async () => {
    const listed = await timed(requestList(world));
    if (listed.value !== count) throw new Error(`listed ${listed.value}`);
    return listed;
  });
  await Promise.all(sandboxes.map(async (sandbox) => sandbox.kill()));
  const [each, command] = [created, commands].map((results) => spread(results.map(({ ms }) => ms)));
  return `${seconds} s, each ${each}; a command each: ${command}; list ${list.ms.toFixed(0)} ms`;
}

async function timed<T>(work: Promise<T>): Promise<{ value: T; ms: number }> {
  const startedMs = performance.now();
  return { value: await work, ms: performance.now() - startedMs };
}

/** How many sandboxes are listed. */
async function requestList({ url, apiKey }: World): Promise<number> {
  const reply = await fetch(`${url}/v2/sandboxes?limit=100`, { headers: { "x-api-key": apiKey } });
  return z.array(z.unknown()).parse(await reply.json()).length;
}

/** @throws Error unless a pooled Pod has an address. */
export async function expectWarm({ admin }: World): Promise<void> {
  const names = await namesOf(admin, "pods", "pool");
  for (const name of names) {
    const pod = JSON.stringify(await admin.call({ method: "GET", path: `pods/${name}` }));
    if (pod.includes('"phase":"Running"')) return;
  }
  throw new Error("no pooled Pod runs");
}
