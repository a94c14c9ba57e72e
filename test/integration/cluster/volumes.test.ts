/** Volumes of sandboxes that are Pods: claims, seen and removed at every front, and mounted in Pods. */

import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { callFront, sendFront } from "../../support/cluster/pod-front.ts";
import { startSnapshotWorld, type SnapshotWorld } from "../../support/cluster/snapshot-world.ts";

const LONG = 60_000;
const SETTLED = { timeout: 30_000, interval: 100 };
const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const REMOVING = "sandbox-mcp.io/removing";

let place: SnapshotWorld;

beforeAll(async () => {
  const volumeSettings = { storageClass: "shared", accessMode: "ReadWriteMany", sizeMb: 128 };
  const pool = [{ template: "base", size: 1 }];
  place = await startSnapshotWorld({ graceShare: 0.05, more: { volumeSettings, pool } });
}, LONG);
afterEach(async () => {
  const { body } = await send("GET /v2/sandboxes?state=running,paused");
  for (const { sandboxID } of body) await send(`DELETE /sandboxes/${sandboxID}`);
  for (const { volumeID } of (await send("GET /volumes")).body) {
    await send(`DELETE /volumes/${volumeID}`);
  }
});
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown, base = place.url) =>
  sendFront(base, call, body);

async function make(name: string, base = place.url): Promise<string> {
  const { status, body } = await send("POST /volumes", { name }, base);
  expect({ status, body }).toMatchObject({ status: 201 });
  return body.volumeID;
}

async function start(volumeMounts: object, more: object = {}, base = place.url) {
  const wish = { templateID: "base", secure: true, timeout: 300, volumeMounts, ...more };
  const { status, body } = await send("POST /sandboxes", wish, base);
  return { status, body, id: String(body.sandboxID) };
}

const data = (path = "/data") => [{ name: "data", path }];
const claims = () =>
  [...place.world.api.objects].filter(([path]) => path.startsWith("persistentvolumeclaims/"));
const claimPath = () =>
  claims()
    .map(([path]) => path)
    .join();
const podOf = (id: string) => Object(place.world.api.objects.get(`pods/${id}`)).spec;

function mark(value: string | undefined): void {
  const path = claimPath();
  place.world.api.change(path, ({ metadata }) => {
    const { annotations } = Object(metadata);
    Object.assign(annotations, { [REMOVING]: value });
  });
}

test("a volume whose answer was lost is made, and one that may come late is told as such", async () => {
  const { api } = place.world;
  api.loseNextReply("persistentvolumeclaims");
  await make("lost");
  const carryOut = api.carryOutLate("POST persistentvolumeclaims");
  const refused = await send("POST /volumes", { name: "late" });
  expect([refused.status, refused.body.message]).toEqual([
    503,
    expect.stringContaining("the cluster may make the volume all the same: look for it before"),
  ]);
  await carryOut();
  const names = async () =>
    (await send("GET /volumes")).body.map(({ name }: { name: string }) => name);
  await expect.poll(names, SETTLED).toEqual(["lost", "late"]);
});

test("a volume of one front is found, listed and removed at the other", async () => {
  const { status, body } = await send("POST /volumes", { name: "data" });
  expect(status).toBe(201);
  const { volumeID, token } = body;
  const found = await send(`GET /volumes/${volumeID}`, undefined, place.second);
  expect(found.body).toMatchObject({ volumeID, token, name: "data", sizeMB: 128 });
  const list = async () => (await send("GET /volumes", undefined, place.second)).body;
  await expect.poll(list).toEqual([{ volumeID, name: "data", sizeMB: 128 }]);
  const [[, claim] = []] = claims();
  expect(claim).toMatchObject({
    metadata: { labels: { "sandbox-mcp.io/part": "volume", "sandbox-mcp.io/team": "local" } },
    spec: {
      storageClassName: "shared",
      accessModes: ["ReadWriteMany"],
      resources: { requests: { storage: "128Mi" } },
    },
  });
  expect(JSON.stringify([...place.world.api.objects])).not.toContain(token);
  expect((await send(`DELETE /volumes/${volumeID}`, undefined, place.second)).status).toBe(204);
  for (const base of [place.url, place.second]) {
    const gone = await send(`GET /volumes/${volumeID}`, undefined, base);
    expect(gone).toEqual({ status: 404, body: { code: 404, message: "Volume not found" } });
    expect((await send(`DELETE /volumes/${volumeID}`, undefined, base)).status).toBe(404);
  }
  expect(claims()).toEqual([]);
});

test("of two fronts one makes the volume of a name", async () => {
  const replies = await Promise.all([
    send("POST /volumes", { name: "data" }),
    send("POST /volumes", { name: "data" }, place.second),
  ]);
  expect(replies.map(({ status }) => status)).toEqual(expect.arrayContaining([201, 400]));
  expect(replies.find(({ status }) => status === 400)?.body.message).toBe(
    "Volume with name 'data' already exists",
  );
  expect(claims()).toHaveLength(1);
});

test.for(["", "a b", "../x", "a/b", "ä", "a".repeat(129)])(
  "the name %j is refused",
  async (name) => {
    expect((await send("POST /volumes", { name })).status).toBe(400);
    expect(claims()).toEqual([]);
  },
);

test("what is no identifier is told from one that is unknown", async () => {
  expect((await send("GET /volumes/nope")).body.message).toBe("Invalid volume ID");
  expect((await send(`GET /volumes/${UNKNOWN}`)).status).toBe(404);
  expect((await send(`DELETE /volumes/${UNKNOWN}`)).status).toBe(404);
});

test("its content is reached in sandboxes alone", async () => {
  const { body } = await send("POST /volumes", { name: "data" });
  const path = `/volumecontent/${body.volumeID}/dir?path=/`;
  const headers = { authorization: `Bearer ${body.token}` };
  const reply = await callFront(place.url, { path, headers });
  expect([reply.status, Object(reply.body).message]).toEqual([
    501,
    expect.stringContaining("cannot reach the content of a volume from outside of a sandbox"),
  ]);
});

test("a Pod gets the claim, is none of the pool, and the volume stays as long as it runs", async () => {
  const volumeId = await make("data", place.second);
  await expect
    .poll(() => [...place.world.api.objects.keys()].filter((path) => path.startsWith("pods/")))
    .toHaveLength(1);
  const pooled = [...place.world.api.objects.keys()];
  const { status, id } = await start(data("/data/"));
  expect(status).toBe(201);
  expect(pooled).not.toContain(`pods/${id}`);
  const path = claimPath();
  const { volumes, securityContext, containers } = podOf(id);
  const [, claimName] = path.split("/");
  expect(volumes).toEqual([{ name: "volume-0", persistentVolumeClaim: { claimName } }]);
  expect(containers[0].volumeMounts).toEqual([{ name: "volume-0", mountPath: "/data" }]);
  expect(securityContext).toMatchObject({ fsGroup: 1000, fsGroupChangePolicy: "OnRootMismatch" });
  const detail = await send(`GET /sandboxes/${id}`, undefined, place.second);
  expect(detail.body).toMatchObject({ volumeMounts: data() });
  expect(detail.body.missingAbilities).toContain("content of volumes outside of sandboxes");
  const refused = await send(`DELETE /volumes/${volumeId}`, undefined, place.second);
  expect(refused.body).toEqual({ code: 409, message: "Volume is mounted in a sandbox" });
  expect((await send(`GET /volumes/${volumeId}`)).status).toBe(200);
  await send(`DELETE /sandboxes/${id}`);
  expect((await send(`DELETE /volumes/${volumeId}`, undefined, place.second)).status).toBe(204);
});

test.for<[string, string]>([
  ["/", "reserved"],
  ["//", "reserved"],
  ["/proc", "reserved"],
  ["/proc/self", "reserved"],
  ["/sys/fs", "reserved"],
  ["/dev/shm", "reserved"],
  ["/run", "reserved"],
  ["/run/sandbox-mcp", "reserved"],
  ["/run/sandbox-mcp.secret", "reserved"],
  ["/run/e2b", "reserved"],
  ["/var/run", "reserved"],
  ["/var//run/sandbox-mcp", "reserved"],
  ["/var/lock/x", "reserved"],
  ["/etc", "reserved"],
  ["/usr/local", "reserved"],
  ["/data/../run", "'..'"],
  ["data", "absolute"],
  ["", "path"],
  ["/a\nb", "control characters"],
  [`/${"a".repeat(256)}`, "255"],
  [`/${"a/".repeat(600)}`, "1024"],
])("a mount at %j is refused", async ([path, text]) => {
  await make("data");
  const { status, body } = await start(data(path));
  expect([status, body.message]).toEqual([400, expect.stringContaining(text)]);
});

async function messageOf(mounts: object): Promise<string> {
  const { status, body } = await start(mounts);
  expect(status).toBe(400);
  return String(body.message);
}

test("mounts that lie in each other, too many, and one of no volume are refused", async () => {
  await make("data");
  expect(await messageOf([...data("/a"), ...data("/a/b")])).toContain("lie one inside the other");
  expect(await messageOf([...data("/a"), ...data("/a")])).toContain("already used");
  expect(await messageOf([{ name: "none", path: "/a" }])).toContain("volume 'none' not found");
  const many = Array.from({ length: 33 }, (_, index) => data(`/m${index}`)).flat();
  expect(await messageOf(many)).toContain("32");
  expect((await send("GET /v2/sandboxes")).body).toEqual([]);
});

test("a removal that its front left is finished, and meanwhile no sandbox gets the volume", async () => {
  await make("data");
  mark("gone");
  const { status, body } = await start(data(), {}, place.second);
  expect([status, body.message]).toEqual([400, expect.stringContaining("'data' not found")]);
  expect((await send("GET /volumes")).body).toEqual([]);
  await expect.poll(claims, SETTLED).toEqual([]);
});

test("a removal that its front left is taken back while a sandbox has the volume", async () => {
  const volumeId = await make("data");
  await start(data());
  mark("gone");
  await expect.poll(async () => (await send(`GET /volumes/${volumeId}`)).status, SETTLED).toBe(200);
  const [[, claim] = []] = claims();
  expect(Object(claim).metadata.annotations).not.toHaveProperty(REMOVING);
});

test("a claim that the cluster changes meanwhile is removed all the same", async () => {
  const volumeId = await make("data");
  const { api } = place.world;
  let left = 2;
  api.onChange((type, plural, { metadata }) => {
    const annotations: object = Object(Object(metadata).annotations);
    if (type !== "MODIFIED" || !(REMOVING in annotations) || left === 0) return;
    left -= 1;
    api.change(`${plural}/${metadata.name}`, (object) => {
      object["status"] = { phase: "Bound" };
    });
  });
  expect((await send(`DELETE /volumes/${volumeId}`)).status).toBe(204);
  expect([claims(), left]).toEqual([[], 0]);
});

test("of a create and a removal at once one is refused", { timeout: LONG }, async () => {
  for (let round = 0; round < 8; round += 1) {
    const volumeId = await make("data");
    const [started, removed] = await Promise.all([
      start(data(), {}, place.second),
      send(`DELETE /volumes/${volumeId}`),
    ]);
    expect([
      [201, 409],
      [400, 204],
      // Each saw the other: neither got it.
      [400, 409],
    ]).toContainEqual([started.status, removed.status]);
    if (started.status === 201) await send(`DELETE /sandboxes/${started.id}`);
    await send(`DELETE /volumes/${volumeId}`);
  }
});

test("a name is free again when the Pods of the old volume are gone", async () => {
  await make("data");
  const path = claimPath();
  const { api } = place.world;
  api.change(path, ({ metadata }) => {
    metadata.deletionTimestamp = new Date(0).toISOString();
  });
  const again = send("POST /volumes", { name: "data" });
  await expect
    .poll(() => api.calls.filter((call) => call === `GET ${path}`).length)
    .toBeGreaterThan(0);
  api.remove(path);
  expect((await again).status).toBe(201);
});

test("a paused sandbox keeps its volume, and has it again", async () => {
  const volumeId = await make("data");
  const { id } = await start(data());
  expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  expect((await send(`DELETE /volumes/${volumeId}`)).status).toBe(409);
  const resumed = await send(`POST /sandboxes/${id}/connect`, { timeout: 60 }, place.second);
  expect(resumed.status).toBe(201);
  expect(podOf(id).containers[0].volumeMounts).toEqual([{ name: "volume-0", mountPath: "/data" }]);
});

test("forks have the volumes of their source; a sandbox of a snapshot gets none", async () => {
  await make("data");
  const { id } = await start(data());
  const { body } = await send(`POST /sandboxes/${id}/fork`, { count: 1 });
  const fork = String(body[0].sandbox.sandboxID);
  expect(podOf(fork).volumes).toEqual(podOf(id).volumes);
  expect((await send(`POST /sandboxes/${id}/snapshots`, { name: "of-volume" })).status).toBe(201);
  const { status, body: refusal } = await start(data(), { templateID: "of-volume" });
  expect([status, refusal.message]).toEqual([
    501,
    expect.stringContaining("cannot mount volumes in a sandbox of a snapshot"),
  ]);
  expect((await start([], { templateID: "of-volume" })).status).toBe(201);
});

test.for(["data", "data/deep"])(
  "a link at %j, on the way to a volume, refuses the pause",
  async (name) => {
    await make("data");
    const { id } = await start(data("/data/deep/volume"));
    const path = join(place.directory, id, name);
    await mkdir(join(path, ".."), { recursive: true });
    await symlink("/run/sandbox-mcp", path);
    // With 409 clients take it for paused already.
    const { status } = await send(`POST /sandboxes/${id}/pause`);
    expect(status).toBe(503);
    await rm(path);
    await writeFile(join(place.directory, id, "other"), "");
    expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  },
);

test("without a storage class there are no volumes", async () => {
  const { url } = await place.world.start();
  const refused = await send("POST /volumes", { name: "data" }, url);
  expect([refused.status, refused.body.message]).toEqual([
    501,
    expect.stringContaining("cannot offer volumes without --volume-class"),
  ]);
  expect((await send("GET /volumes", undefined, url)).body).toEqual([]);
  expect((await start(data(), {}, url)).status).toBe(501);
});
