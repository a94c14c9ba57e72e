/** Logs and metrics of sandboxes, asked of their daemons through either front. */

import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, expectNothing, type World } from "../world.ts";
import { clientOf } from "./faults.ts";

const MIB = 1024 * 1024;
const HELD_MIB = 100;
/** Memory that is held, and a processor that is busy, until it is ended. */
const BUSY = `import os
held = os.urandom(${MIB}) * ${HELD_MIB}
print("held")
while True: pass
`;
/** A front waits so long for a daemon, and a little more for its own answer. */
const ANSWER_MS = 8_000;

const logsSchema = z.object({
  logs: z.array(z.object({ message: z.string(), timestamp: z.string() })),
});
const sampleSchema = z.object({
  timestamp: z.string(),
  cpuUsedPct: z.number(),
  cpuCount: z.number(),
  memUsed: z.number(),
  memTotal: z.number(),
  diskUsed: z.number(),
  diskTotal: z.number(),
});
const manySchema = z.object({ sandboxes: z.record(z.string(), sampleSchema) });

async function get({ apiKey }: World, url: string): Promise<unknown> {
  const reply = await fetch(url, { headers: { "x-api-key": apiKey } });
  const text = await reply.text();
  if (reply.status !== 200) throw new Error(`${reply.status} ${text}`);
  return JSON.parse(text);
}

/** Of every front; they agree once the daemon writes nothing more. */
async function messagesOf(world: World, path: string): Promise<string[]> {
  return eventually(async () => {
    const replies = await Promise.all(
      world.fronts.map(async ({ url }) => logsSchema.parse(await get(world, url + path)).logs),
    );
    const [first = "", ...others] = replies.map((lines) => JSON.stringify(lines));
    const odd = others.find((text) => text !== first);
    if (odd !== undefined) throw new Error(`fronts differ: ${first} | ${odd}`);
    return replies[0]?.map(({ message }) => message) ?? [];
  });
}

async function samplesOf(world: World, path: string) {
  return Promise.all(
    world.fronts.map(async ({ url }) => {
      const [sample, ...more] = z.array(sampleSchema).parse(await get(world, url + path));
      if (sample === undefined || more.length > 0) throw new Error(`${more.length + 1} samples`);
      return sample;
    }),
  );
}

export async function runInspect(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  await using stack = new AsyncDisposableStack();
  const sandbox = await Sandbox.create(options);
  stack.defer(async () => void (await sandbox.kill()));
  await checkLogs(world, sandbox);
  await checkMetrics(world, sandbox);
  await checkSilent(world, sandbox);
  await world.check("inspect: logs and metrics of one that ended are 404", async () => {
    await sandbox.kill();
    const [front] = world.fronts;
    for (const what of ["logs", "metrics"]) {
      const reply = await fetch(`${front?.url}/sandboxes/${sandbox.sandboxId}/${what}`, {
        headers: { "x-api-key": world.apiKey },
      });
      if (reply.status !== 404) throw new Error(`${what}: ${reply.status} ${await reply.text()}`);
    }
    await eventually(() => expectNothing(world.admin));
  });
}

async function checkLogs(world: World, sandbox: Sandbox): Promise<void> {
  const path = `/v2/sandboxes/${sandbox.sandboxId}/logs`;
  await world.check("inspect: both fronts read the same log, from its start", async () => {
    await sandbox.commands.run("true");
    const forward = await messagesOf(world, `${path}?direction=forward`);
    const backward = await messagesOf(world, path);
    const found = await messagesOf(world, `${path}?search=created`);
    const last = await messagesOf(world, `${path}?limit=1`);
    if (forward[0] !== "Sandbox created" || forward.length < 2) throw new Error(forward.join(", "));
    if (backward.toReversed().join() !== forward.join() || last.join() !== backward[0]) {
      throw new Error(`${forward.join(", ")} | ${backward.join(", ")} | ${last.join(", ")}`);
    }
    if (found.join() !== "Sandbox created") throw new Error(found.join(", "));
    return `${forward.length} lines`;
  });
  await world.check("inspect: a daemon that was killed is asked when it is back", async () => {
    await sandbox.commands.run("sudo pkill -9 -f daemon.cjs").catch(() => undefined);
    await eventually(async () => sandbox.commands.run("true"));
    const lines = await messagesOf(world, `${path}?direction=forward`);
    if (lines[0] !== "Sandbox created" || lines.length < 2) throw new Error(lines.join(", "));
    return `${lines.length} lines`;
  });
}

async function checkMetrics(world: World, sandbox: Sandbox): Promise<void> {
  const path = `/sandboxes/${sandbox.sandboxId}/metrics`;
  await world.check("inspect: metrics are those of the Pod, at rest and at work", async () => {
    const { memoryMB } = await sandbox.getInfo();
    const rest = await samplesOf(world, path);
    await sandbox.files.write("/tmp/busy.py", BUSY);
    const { promise: held, resolve } = Promise.withResolvers<void>();
    const options = { background: true, onStdout: () => resolve() } as const;
    const busy = await sandbox.commands.run("python3 -u /tmp/busy.py", options);
    await held;
    const work = await samplesOf(world, path);
    await busy.kill();
    const text = JSON.stringify([rest, work]);
    for (const [index, after] of work.entries()) {
      const before = rest[index];
      if (before === undefined) throw new Error(text);
      const grown = (after.memUsed - before.memUsed) / MIB;
      if (grown < HELD_MIB * 0.9 || grown > HELD_MIB * 1.5)
        throw new Error(`${grown} MiB: ${text}`);
      if (after.memTotal !== memoryMB * MIB) throw new Error(`of ${memoryMB} MiB: ${text}`);
      if (after.cpuUsedPct <= before.cpuUsedPct || after.cpuUsedPct > 100) throw new Error(text);
      if (after.diskUsed <= 0 || after.diskUsed > after.diskTotal) throw new Error(text);
      if (Math.abs(Date.parse(after.timestamp) - Date.now()) > 10_000) throw new Error(text);
    }
    return JSON.stringify(work[0]);
  });
  await world.check("inspect: metrics have no history", async () => {
    const seconds = Math.floor(Date.now() / 1_000);
    const [front] = world.fronts;
    const past = await get(world, `${front?.url}${path}?end=${seconds - 60}`);
    if (JSON.stringify(past) !== "[]") throw new Error(JSON.stringify(past));
  });
}

/** A daemon that is stopped from inside answers nothing, and takes nothing from others. */
async function checkSilent(world: World, sandbox: Sandbox): Promise<void> {
  await world.check("inspect: a daemon stopped from inside is told as unavailable", async () => {
    const silent = await Sandbox.create(clientOf(world.url, world.apiKey));
    await using stack = new AsyncDisposableStack();
    stack.defer(async () => void (await silent.kill()));
    // Its own reply must be out before it stops.
    await silent.commands.run(
      "sudo sh -c '(sleep 1; pkill -STOP -f daemon.cjs) >/dev/null 2>&1 &'",
    );
    await delay(2_000);
    const [front] = world.fronts;
    const ids = [sandbox.sandboxId, silent.sandboxId];
    const beganMs = performance.now();
    const many = manySchema.parse(
      await get(world, `${front?.url}/sandboxes/metrics?sandbox_ids=${ids.join()}`),
    );
    const durationMs = Math.round(performance.now() - beganMs);
    if (Object.keys(many.sandboxes).join() !== sandbox.sandboxId) {
      throw new Error(Object.keys(many.sandboxes).join());
    }
    const statuses: number[] = [];
    for (const what of ["logs", "metrics"]) {
      const reply = await fetch(`${front?.url}/sandboxes/${silent.sandboxId}/${what}`, {
        headers: { "x-api-key": world.apiKey },
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      statuses.push(reply.status);
    }
    if (statuses.some((status) => status !== 503)) throw new Error(statuses.join());
    return `of two: ${durationMs} ms; alone: ${statuses.join()}`;
  });
}
