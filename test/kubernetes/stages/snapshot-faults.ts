/** A front killed at each step of a snapshot, a fork, a removal, a pause and a resume. */

import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { POD_STEPS } from "../steps.ts";
import { eventually, namesOf, type World } from "../world.ts";
import { clientOf, STEP_LISTENER } from "./faults.ts";
import {
  cleanUp,
  createFrom,
  expectImagesSettled,
  listAll,
  request,
  send,
  SETTLE_MS,
  takeSnapshot,
} from "./images.ts";

/** What begins each kind, and what must be true of the sandbox and of the images in the end. */
const KINDS = {
  snapshot: {
    prepare: async () => undefined,
    call: (id: string) => `POST /sandboxes/${id}/snapshots`,
    most: 1,
  },
  fork: {
    prepare: async () => undefined,
    call: (id: string) => `POST /sandboxes/${id}/fork`,
    most: 1,
  },
  remove: {
    prepare: async (world: World, id: string) => void (await takeSnapshot(world, id, "removed")),
    call: () => "DELETE /templates/removed",
    most: 0,
  },
  pause: {
    prepare: async () => undefined,
    call: (id: string) => `POST /sandboxes/${id}/pause`,
    most: 1,
  },
  resume: {
    prepare: async (world: World, id: string) =>
      void (await request(world, `POST /sandboxes/${id}/pause`)),
    call: (id: string) => `POST /sandboxes/${id}/connect`,
    most: 1,
  },
} as const;

type Kind = keyof typeof KINDS;

export async function runSnapshotFaults(world: World): Promise<void> {
  for (const kind of ["snapshot", "fork", "remove", "pause", "resume"] as const) {
    for (const step of POD_STEPS[kind]) {
      await world.check(`front killed at ${step} of ${kind}`, () => killAt(world, kind, step));
    }
  }
}

async function killAt(world: World, kind: Kind, step: string): Promise<string> {
  const { prepare, call, most } = KINDS[kind];
  const plan = join(world.directory, `plan-${kind}-${step}`);
  // Its name is last: it is not the leader.
  await using front = world.startFront(`victim-${kind}-${step.replace(".", "-")}`, {
    STEP_PLAN: plan,
    NODE_OPTIONS: `--import=${STEP_LISTENER}`,
  });
  await front.ready();
  const source = await createFrom(world, "base");
  const { sandboxId } = source;
  await source.commands.run("echo kept > ~/kept");
  await prepare(world, sandboxId);
  rmSync(`${plan}.hit`, { force: true });
  writeFileSync(plan, JSON.stringify({ step, action: "kill" }));
  const target = { url: front.url, apiKey: world.apiKey };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const wanted = call(sandboxId) as `${string} ${string}`;
  const body = kind === "remove" ? undefined : { timeout: 300 };
  await send(target, wanted, body).catch(() => undefined);
  if (!existsSync(`${plan}.hit`)) throw new Error("the step did not come");
  const killedAtMs = performance.now();
  await eventually(() => expectConsistent(world, most), SETTLE_MS);
  const seconds = ((performance.now() - killedAtMs) / 1000).toFixed(1);
  const state = await expectFiles(world, sandboxId);
  await cleanUp(world);
  return `consistent after ${seconds} s, the sandbox was ${state}`;
}

/** @throws Error unless each record has its Pod or is that of a paused one, and each image its record. */
async function expectConsistent(world: World, most: number): Promise<void> {
  const records = await namesOf(world.admin, "configmaps", "sandbox");
  const pods = await namesOf(world.admin, "pods", "sandbox");
  const listed = await listAll(world);
  const paused: string[] = [];
  for (const id of listed) {
    const text = JSON.stringify(
      await world.admin.call({ method: "GET", path: `configmaps/${id}` }),
    );
    if (text.includes("resuming") || text.includes("pausing")) throw new Error(`${id} is changing`);
    if (text.includes(String.raw`\"state\":\"paused\"`)) paused.push(id);
  }
  const running = listed.filter((id) => !paused.includes(id));
  const texts = [records, listed].map((names) => names.toSorted().join(" "));
  const podTexts = [pods, running].map((names) => names.toSorted().join(" "));
  if (new Set(texts).size !== 1 || new Set(podTexts).size !== 1) {
    throw new Error([...texts, ...podTexts].join(" | "));
  }
  const images = await expectImagesSettled(world);
  if (images.length > most) throw new Error(`images: ${images.join(" ")}`);
  for (const name of images) {
    const text = JSON.stringify(
      await world.admin.call({ method: "GET", path: `configmaps/${name}` }),
    );
    if (!text.includes(String.raw`\"state\":\"ready\"`)) throw new Error(`${name} is not ready`);
  }
}

/** Whatever became of it, its files are there. */
async function expectFiles(world: World, sandboxId: string): Promise<string> {
  const { status, text } = await send(world, `POST /sandboxes/${sandboxId}/connect`, {
    timeout: 300,
  });
  if (status !== 200 && status !== 201) throw new Error(`${status} ${text}`);
  const sandbox = await Sandbox.connect(sandboxId, clientOf(world.url, world.apiKey));
  const { stdout } = await sandbox.commands.run("cat ~/kept");
  if (stdout !== "kept\n") throw new Error(stdout);
  return status === 201 ? "paused" : "running";
}
