/** Volumes on the real cluster: claims that the nodes share, written and read by sandboxes on both. */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, type World } from "../world.ts";
import { runMain } from "./doctor.ts";
import { clientOf } from "./faults.ts";
import { cleanUp, createFrom, imageOf, request, send, takeSnapshot } from "./images.ts";
import { awayFrom } from "./snapshots.ts";

const CLASS = "shared";
const FLAGS = ["--volume-class", CLASS, "--volume-mb", "64"];
/** A volume that was released is not used again. */
const PLACES = 6;
const claimsSchema = z.object({
  items: z.array(z.object({ metadata: z.object({ name: z.string() }) })),
});
const volumeSchema = z.object({ volumeID: z.string() });

export async function runVolumes(world: World): Promise<void> {
  await makePlaces(world);
  await using one = world.startFront("volumes1", {}, { flags: FLAGS });
  await using two = world.startFront("volumes2", {}, { flags: FLAGS });
  await one.ready();
  await two.ready();
  const [first, second] = [one, two].map(({ url }) => ({ ...world, url }));
  if (first === undefined || second === undefined) return;
  let volumeId = "";
  await world.check("doctor: volumes of a storage class", () => doctor(world));
  await world.check("volumes: two sandboxes on two nodes share one", async () => {
    volumeId = volumeSchema.parse(await request(first, "POST /volumes", { name: "data" })).volumeID;
    return share(first, second, volumeId);
  });
  await world.check("volumes: it outlives its sandboxes, pauses and snapshots", () =>
    outlive(first, second),
  );
  await world.check("volumes: nothing is mounted over the daemon", () => refuse(first));
  await world.check("volumes: one that is removed is gone, and its name is free", async () => {
    await request(second, `DELETE /volumes/${volumeId}`);
    const again = volumeSchema.parse(await request(first, "POST /volumes", { name: "data" }));
    await request(second, `DELETE /volumes/${again.volumeID}`);
    await eventually(async () => {
      const claims = claimsSchema.parse(
        await world.admin.call({ method: "GET", path: "persistentvolumeclaims" }),
      );
      const names = claims.items.map(({ metadata }) => metadata.name);
      if (names.length > 0) throw new Error(names.join(" "));
    });
  });
  await world.check("volumes: nothing is left", () => cleanUp(first));
}

/** Directories that both kubelets see. */
async function makePlaces({ admin, directory }: World): Promise<void> {
  const storageClass = {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: CLASS },
    provisioner: "kubernetes.io/no-provisioner",
  };
  const path = "/apis/storage.k8s.io/v1/storageclasses";
  await admin.call({ method: "POST", path, body: storageClass });
  for (let index = 0; index < PLACES; index += 1) {
    const place = join(directory, `volume-${index}`);
    mkdirSync(place);
    const body = {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: `place-${index}` },
      spec: {
        storageClassName: CLASS,
        capacity: { storage: "64Mi" },
        accessModes: ["ReadWriteMany"],
        persistentVolumeReclaimPolicy: "Retain",
        local: { path: place },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "Exists" }] },
            ],
          },
        },
      },
    };
    await admin.call({ method: "POST", path: "/api/v1/persistentvolumes", body });
  }
}

async function doctor({ cluster, image, template, account }: World): Promise<string> {
  const words = `--engine kubernetes --kubernetes-url ${cluster.url} --kubernetes-account ${account}`;
  const pods = `--pod-images base=${image} --pod-template ${template}`;
  const { status, text } = await runMain(`doctor ${words} ${pods} ${FLAGS.join(" ")}`);
  if (status !== 0 || !text.includes(`storage class ${CLASS}`))
    throw new Error(`${status} ${text}`);
  return text.trim().replaceAll("\n", "\n    ");
}

async function start(world: World, mounts: Readonly<Record<string, string>> = { "/data": "data" }) {
  return Sandbox.create("base", {
    ...clientOf(world.url, world.apiKey),
    timeoutMs: 600_000,
    volumeMounts: mounts,
  });
}

async function expectOutput(sandbox: Sandbox, command: string, expected: string): Promise<void> {
  const { stdout } = await sandbox.commands.run(command);
  if (stdout !== expected) throw new Error(`${command}: ${JSON.stringify(stdout)}`);
}

async function share(first: World, second: World, volumeId: string): Promise<string> {
  const one = await awayFrom(first, "node2", async () => start(first));
  const two = await awayFrom(second, "node1", async () => start(second));
  const nodes = [await imageOf(first, one.sandboxId), await imageOf(second, two.sandboxId)];
  await one.commands.run("mkdir /data/made && echo one > /data/made/file && sudo touch /data/root");
  await expectOutput(
    two,
    "cat /data/made/file; stat -c %U /data/made/file /data/root",
    "one\nuser\nroot\n",
  );
  await two.commands.run("echo two >> /data/made/file");
  await expectOutput(one, "cat /data/made/file", "one\ntwo\n");
  const { status, text } = await send(second, `DELETE /volumes/${volumeId}`);
  if (status !== 409) throw new Error(`${status} ${text}`);
  for (const sandbox of [one, two]) await sandbox.kill();
  return nodes.map(({ node }) => node).join(" and ");
}

async function outlive(first: World, second: World): Promise<void> {
  const sandbox = await start(first);
  await expectOutput(sandbox, "tail -n 1 /data/made/file", "two\n");
  await request(second, `POST /sandboxes/${sandbox.sandboxId}/pause`);
  await Sandbox.connect(sandbox.sandboxId, clientOf(second.url, second.apiKey));
  await sandbox.commands.run("echo three >> /data/made/file");
  const [fork] = await sandbox.fork();
  if (!(fork instanceof Sandbox)) throw fork ?? new Error("no fork");
  await expectOutput(fork, "tail -n 1 /data/made/file", "three\n");
  await takeSnapshot(second, sandbox.sandboxId, "of-volume");
  const copy = await createFrom(first, "of-volume");
  await expectOutput(copy, "ls -A /data 2>/dev/null || true", "");
  for (const one of [sandbox, fork, copy]) await one.kill();
}

async function refuse(world: World): Promise<void> {
  for (const path of ["/", "/proc", "/run/sandbox-mcp", "/var/run/sandbox-mcp", "/usr/bin"]) {
    const volumeMounts = [{ name: "data", path }];
    const { status, text } = await send(world, "POST /sandboxes", {
      templateID: "base",
      volumeMounts,
    });
    if (status !== 400 || !text.includes("reserved")) throw new Error(`${path}: ${status} ${text}`);
  }
}
