/** The parts of the cluster killed and back: what runs goes on, what cannot be done says so. */

import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import type { ClusterNode } from "../cluster/node.ts";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";
import { all, clientOf, expectSettled } from "./faults.ts";
import { awayFrom } from "./snapshots.ts";

const CREATES = 10;
const SETTLE_MS = 90_000;

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
  await world.check("API server killed: sandboxes answer, create and kill say 503", async () => {
    const sandbox = await Sandbox.create(options);
    await sandbox.commands.run("true");
    await programs.api.kill();
    const { stdout } = await sandbox.commands.run("echo alive");
    const reply = await requestCreate(world);
    const retry = reply.headers.get("retry-after");
    const kill = await requestKill(world, sandbox.sandboxId);
    programs.api.start();
    await eventually(async () => sandbox.setTimeout(60_000));
    await eventually(async () => sandbox.kill());
    if (stdout !== "alive\n" || reply.status !== 503 || retry === null) {
      throw new Error(`${stdout} ${reply.status} ${retry} ${await reply.text()}`);
    }
    if (kill.status !== 503 || kill.headers.get("retry-after") === null) {
      throw new Error(`kill: ${kill.status} ${await kill.text()}`);
    }
    return `create: ${reply.status}, Retry-After ${retry}; kill: ${kill.status}`;
  });
  await world.check("API server killed amid creates: in the end what was answered runs", () =>
    killAmidCreates(world),
  );
  await world.check("etcd killed and back: the sandbox answers, create says 503", async () => {
    const sandbox = await Sandbox.create(options);
    await programs.etcd.kill();
    const { stdout } = await sandbox.commands.run("echo alive");
    const beganMs = performance.now();
    const reply = await requestCreate(world);
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
    programs.etcd.start();
    await eventually(async () => (await Sandbox.create(options)).kill(), SETTLE_MS);
    const after = await sandbox.commands.run("echo back");
    await eventually(async () => sandbox.kill(), SETTLE_MS);
    await eventually(() => expectNothing(world.admin), SETTLE_MS);
    const retry = reply.headers.get("retry-after");
    if (stdout + after.stdout !== "alive\nback\n" || reply.status !== 503 || retry === null) {
      throw new Error(`${stdout} ${reply.status} ${retry} ${await reply.text()}`);
    }
    return `create: ${reply.status} after ${seconds} s, Retry-After ${retry}`;
  });
  await world.check("kubelet killed and back: the sandbox answers meanwhile", async () => {
    const sandbox = await Sandbox.create(options);
    const { kubelet } = await nodeOf(world, sandbox.sandboxId);
    await kubelet.kill();
    const { stdout } = await sandbox.commands.run("echo alive");
    kubelet.start();
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

/** Creates whose answer was lost leave nothing that nobody knows of. */
async function killAmidCreates(world: World): Promise<string> {
  const { api } = world.cluster.programs;
  const options = clientOf(world.url, world.apiKey);
  const creates = Array.from({ length: CREATES }, async () => {
    const reply = await requestCreate(world);
    const text = await reply.text();
    return { status: reply.status, id: String(Object(JSON.parse(text)).sandboxID) };
  });
  await eventually(async () => {
    const records = await namesOf(world.admin, "configmaps", "sandbox");
    if (records.length < CREATES / 2) throw new Error(`${records.length} records`);
  });
  await api.kill();
  api.start();
  const replies = await Promise.all(creates);
  const made = replies.filter(({ status }) => status === 201).map(({ id }) => id);
  const odd = replies.filter(({ status }) => ![201, 503, 504].includes(status));
  if (odd.length > 0) throw new Error(JSON.stringify(odd));
  await eventually(async () => {
    await expectSettled(world);
    const ids: string[] = [];
    for await (const { sandboxId } of all(options)) ids.push(sandboxId);
    if (ids.toSorted().join() !== made.toSorted().join()) {
      throw new Error(`answered ${made.join()}, running ${ids.join()}`);
    }
  }, SETTLE_MS);
  for (const id of made) await Sandbox.kill(id, options);
  await eventually(() => expectNothing(world.admin));
  return `${made.length} answered, ${CREATES - made.length} refused`;
}

async function requestKill({ url, apiKey }: World, sandboxId: string): Promise<Response> {
  return fetch(`${url}/sandboxes/${sandboxId}`, {
    method: "DELETE",
    headers: { "x-api-key": apiKey },
  });
}

async function requestCreate({ url, apiKey }: World): Promise<Response> {
  return fetch(`${url}/v2/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    body: JSON.stringify({ templateID: "base" }),
  });
}

/** The last stage: a node does not come back for long. Kubernetes takes a minute and a half to give it up. */
export async function runLostNode(world: World): Promise<void> {
  const options = clientOf(world.url, world.apiKey);
  await world.check(
    "a node is gone: its sandboxes end, those of the other one run on",
    async () => {
      const [kept, lost] = await createOnEach(world);
      const node = await nodeOf(world, lost.sandboxId);
      await node.kubelet.kill();
      await node.containerd.kill();
      const beganMs = performance.now();
      const seconds = () => ((performance.now() - beganMs) / 1000).toFixed(0);
      await kept.commands.run("true");
      await eventually(async () => {
        if (await lost.isRunning()) throw new Error("it is still there");
        const records = await namesOf(world.admin, "configmaps", "sandbox");
        if (records.join() !== kept.sandboxId) throw new Error(`records: ${records.join(" ")}`);
      }, LOST_MS);
      const gone = seconds();
      const reply = await fetch(`${world.url}/health`, {
        headers: { "E2b-Sandbox-Id": lost.sandboxId, "E2b-Sandbox-Port": "49983" },
      });
      if (reply.status !== 502) throw new Error(`the gateway answers ${reply.status}`);
      const later = await Sandbox.create(options);
      for (const sandbox of [kept, later]) {
        await sandbox.commands.run("true");
        await sandbox.kill();
      }
      await eventually(() => expectNothing(world.admin), LOST_MS);
      return `ended after ${gone} s, its Pod removed after ${seconds()} s`;
    },
  );
  await world.check("a node that is back takes sandboxes again", async () => {
    for (const { kubelet, containerd } of world.cluster.nodes) {
      if (containerd.pid === undefined) containerd.start();
      if (kubelet.pid === undefined) kubelet.start();
    }
    const beganMs = performance.now();
    for (const sandbox of await createOnEach(world)) await sandbox.kill();
    await eventually(() => expectNothing(world.admin), LOST_MS);
    return `after ${((performance.now() - beganMs) / 1000).toFixed(0)} s`;
  });
}

const LOST_MS = 240_000;

/** One sandbox on each of the two nodes. */
async function createOnEach(world: World): Promise<readonly [Sandbox, Sandbox]> {
  const options = { ...clientOf(world.url, world.apiKey), timeoutMs: 900_000 };
  const first = await Sandbox.create(options);
  const { name } = await nodeOf(world, first.sandboxId);
  const createElsewhere = async () => {
    const sandbox = await Sandbox.create(options);
    if ((await nodeOf(world, sandbox.sandboxId)).name !== name) return sandbox;
    // It was a pooled one: the next one is made on the other node.
    await sandbox.kill();
    throw new Error(`all sandboxes are on ${name}`);
  };
  return [first, await awayFrom(world, name, () => eventually(createElsewhere, LOST_MS))];
}

const placedSchema = z.object({ spec: z.object({ nodeName: z.string() }) });

/** The node where the Pod of a sandbox is. */
async function nodeOf({ admin, cluster }: World, sandboxId: string): Promise<ClusterNode> {
  const pod = await admin.call({ method: "GET", path: `pods/${sandboxId}` });
  const { nodeName } = placedSchema.parse(pod).spec;
  const node = cluster.nodes.find(({ name }) => name === nodeName);
  if (node === undefined) throw new Error(`no node ${nodeName}`);
  return node;
}
