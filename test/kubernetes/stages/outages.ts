/** The parts of the cluster killed and back: what runs goes on, what cannot be done says so. */

import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";
import { all, clientOf } from "./faults.ts";

export async function runOutages(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  const { programs } = world.cluster;
  await world.check("all fronts killed and back: the sandbox answers", async () => {
    const sandbox = await Sandbox.create(options);
    for (const front of world.fronts) await front.program.kill();
    for (const front of world.fronts) front.program.start();
    for (const front of world.fronts) await front.ready();
    const { stdout } = await sandbox.commands.run("echo back");
    if (stdout !== "back\n") throw new Error(stdout);
    await sandbox.kill();
  });
  await world.check("API server killed: running sandboxes answer, create says 503", async () => {
    const sandbox = await Sandbox.create(options);
    await sandbox.commands.run("true");
    await programs.api.kill();
    const { stdout } = await sandbox.commands.run("echo alive");
    const reply = await requestCreate(world);
    const retry = reply.headers.get("retry-after");
    programs.api.start();
    await eventually(async () => sandbox.setTimeout(60_000));
    await eventually(async () => sandbox.kill());
    if (stdout !== "alive\n" || reply.status !== 503 || retry === null) {
      throw new Error(`${stdout} ${reply.status} ${retry} ${await reply.text()}`);
    }
    return `create: ${reply.status}, Retry-After ${retry}`;
  });
  await world.check("kubelet killed and back: the sandbox answers meanwhile", async () => {
    const sandbox = await Sandbox.create(options);
    await programs.kubelet.kill();
    const { stdout } = await sandbox.commands.run("echo alive");
    programs.kubelet.start();
    if (stdout !== "alive\n") throw new Error(stdout);
    await eventually(async () => (await Sandbox.create(options)).kill());
    await sandbox.kill();
  });
  await world.check(
    "a quota that is used up: 429 with Retry-After, and nothing is left",
    async () => {
      const path = "resourcequotas";
      const spec = { hard: { "limits.cpu": "1" } };
      await world.admin.call({ method: "POST", path, body: { metadata: { name: "small" }, spec } });
      // The admission of quotas learns of it a moment later.
      const reply = await eventually(async () => {
        const refused = await requestCreate(world);
        if (refused.status !== 429) throw new Error(`${refused.status} ${await refused.text()}`);
        return refused;
      });
      await world.admin.call({ method: "DELETE", path: `${path}/small` });
      for await (const { sandboxId } of all(options)) await Sandbox.kill(sandboxId, options);
      await eventually(() => expectNothing(world.admin));
      await eventually(async () => (await Sandbox.create(options)).kill());
      return `Retry-After ${reply.headers.get("retry-after")}`;
    },
  );
  await world.check("a sandbox expires at its time", async () => {
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 3_000 });
    const beganMs = performance.now();
    await delay(1_000);
    await eventually(async () => {
      if (await sandbox.isRunning()) throw new Error("it runs");
    });
    await eventually(() => expectNothing(world.admin));
    return `gone after ${((performance.now() - beganMs) / 1000).toFixed(1)} s`;
  });
}

async function requestCreate({ url, apiKey }: World): Promise<Response> {
  return fetch(`${url}/v2/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base" }),
  });
}

/** The last stage: the node does not come back. Kubernetes takes a minute and a half to give it up. */
export async function runLostNode(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  await world.check(
    "a node gone for good: its sandbox ends, and nothing of it is left",
    async () => {
      const sandbox = await Sandbox.create({ ...options, timeoutMs: 900_000 });
      const { kubelet, containerd } = world.cluster.programs;
      await kubelet.kill();
      await containerd.kill();
      const beganMs = performance.now();
      const seconds = () => ((performance.now() - beganMs) / 1000).toFixed(0);
      await eventually(async () => {
        if (await sandbox.isRunning()) throw new Error("it is still there");
        await expectNothingButPods(world);
      }, LOST_MS);
      const gone = seconds();
      const reply = await fetch(`${world.url}/health`, {
        headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983" },
      });
      if (reply.status !== 502) throw new Error(`the gateway answers ${reply.status}`);
      await eventually(() => expectNothing(world.admin), LOST_MS);
      return `ended after ${gone} s, its Pod removed after ${seconds()} s`;
    },
  );
}

const LOST_MS = 240_000;

async function expectNothingButPods({ admin }: World): Promise<void> {
  const records = await namesOf(admin, "configmaps", "sandbox");
  if (records.length > 0) throw new Error(`records: ${records.join(" ")}`);
}
