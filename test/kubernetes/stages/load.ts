/** Creates from the pool, of Pods of their own, and many at once. */

import { Sandbox } from "e2b";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";
import { clientOf } from "./faults.ts";

const ROUNDS = 5;
const AT_ONCE = 20;

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
  await world.check(`${AT_ONCE} creates at once`, async () => {
    const beganMs = performance.now();
    const creates = Array.from({ length: AT_ONCE }, async () => Sandbox.create(options));
    const sandboxes = await Promise.all(creates);
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
    await Promise.all(sandboxes.map(async (sandbox) => sandbox.commands.run("true")));
    await Promise.all(sandboxes.map(async (sandbox) => sandbox.kill()));
    return `${seconds} s`;
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

/** @throws Error unless a pooled Pod has an address. */
async function expectWarm({ admin }: World): Promise<void> {
  const names = await namesOf(admin, "pods", "pool");
  for (const name of names) {
    const pod = JSON.stringify(await admin.call({ method: "GET", path: `pods/${name}` }));
    if (pod.includes('"phase":"Running"')) return;
  }
  throw new Error("no pooled Pod runs");
}
