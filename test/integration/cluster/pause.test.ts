/** Pauses of Pods: the files become an image, the Pod goes, and a later one has the same id and tokens. */

import { link, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { atStep } from "../../support/at-step.ts";
import { callFront, sendFront } from "../../support/cluster/pod-front.ts";
import { readImage } from "../../support/cluster/pod-images.ts";
import {
  BASIC,
  startSnapshotWorld,
  type SnapshotWorld,
} from "../../support/cluster/snapshot-world.ts";

const LONG = 60_000;
const SETTLED = { timeout: 30_000, interval: 100 };

let place: SnapshotWorld;

beforeAll(async () => {
  place = await startSnapshotWorld();
}, LONG);
afterEach(async () => {
  const { body } = await send("GET /v2/sandboxes?state=running,paused");
  for (const { sandboxID } of body) await send(`DELETE /sandboxes/${sandboxID}`);
});
afterAll(async () => place[Symbol.asyncDispose]());

const send = (call: `${string} ${string}`, body?: unknown, base = place.url) =>
  sendFront(base, call, body);

async function create(more: object = {}): Promise<{ id: string; token: string }> {
  const wish = { templateID: "base", secure: true, timeout: 300, ...more };
  const { status, body } = await send("POST /sandboxes", wish);
  expect({ status, body }).toMatchObject({ status: 201 });
  return { id: body.sandboxID, token: body.envdAccessToken };
}

const fileOf = (id: string, path: string) => join(place.directory, id, path);
const text = async (id: string, path: string) =>
  readFile(fileOf(id, path), "utf8").catch(() => undefined);
const hasPod = (id: string) => place.world.api.objects.has(`pods/${id}`);
/** Records of images that were made of a sandbox. */
const imagesOf = (id: string) =>
  [...place.world.api.objects].filter(
    ([path, object]) =>
      path.startsWith("configmaps/snapshot-") && JSON.stringify(object).includes(id),
  );

/** The status of a request to the daemon of a sandbox, through the gateway of a front. */
async function enter(id: string, token: string, base = place.url): Promise<number> {
  const headers = { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": "49983", "x-access-token": token };
  return (await fetch(`${base}/health`, { headers })).status;
}

test("a paused sandbox has no Pod; connect at another front brings its files, id and token back", async () => {
  const { id, token } = await create({ metadata: { of: "pause" } });
  await writeFile(fileOf(id, "etc/new"), "new");
  await rm(fileOf(id, "etc/gone"));
  expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  expect(hasPod(id)).toBe(false);
  const { body } = await send(`GET /sandboxes/${id}`, undefined, place.second);
  expect(body).toMatchObject({ state: "paused", pauseMode: "filesystem" });
  expect(body.missingAbilities).toContain("memory in pauses");
  expect(await enter(id, token)).toBe(502);
  const listed = await send("GET /v2/sandboxes?state=paused&metadata=of%3Dpause");
  expect(listed.body.map(({ sandboxID }: { sandboxID: string }) => sandboxID)).toEqual([id]);
  await rm(fileOf("", id), { recursive: true });
  const { status, body: resumed } = await send(
    `POST /sandboxes/${id}/connect`,
    { timeout: 60 },
    place.second,
  );
  expect([status, resumed.sandboxID, resumed.envdAccessToken]).toEqual([201, id, token]);
  expect([await text(id, "etc/new"), await text(id, "etc/gone")]).toEqual(["new", undefined]);
  expect(await enter(id, token, place.second)).toBe(204);
  expect((await send(`GET /sandboxes/${id}`)).body.state).toBe("running");
});

test(
  "pauses upon each other: the newest files count, and images that nobody uses go",
  { timeout: LONG },
  async () => {
    const { id } = await create();
    for (const version of ["1", "2", "3"]) {
      await writeFile(fileOf(id, `etc/version${version}`), version);
      expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
      expect((await send(`POST /sandboxes/${id}/resume`, {})).status).toBe(201);
    }
    const files = ["1", "2", "3"].map(async (version) => text(id, `etc/version${version}`));
    expect(await Promise.all(files)).toEqual(["1", "2", "3"]);
    await expect.poll(() => imagesOf(id).length, SETTLED).toBe(1);
    expect((await send(`DELETE /sandboxes/${id}`)).status).toBe(204);
    await expect.poll(() => imagesOf(id), SETTLED).toEqual([]);
  },
);

test(
  "beyond the bound of layers the pauses are merged: files, removals and links are those of the last",
  { timeout: 4 * LONG },
  async () => {
    const { id } = await create();
    for (let count = 1; count <= 27; count += 1) {
      await writeFile(fileOf(id, "etc/newest"), String(count));
      await writeFile(fileOf(id, `etc/of-${count}`), String(count));
      await rm(fileOf(id, count === 1 ? "etc/gone" : `etc/of-${count - 1}`));
      if (count === 2) await link(fileOf(id, "etc/of-2"), fileOf(id, "etc/linked"));
      expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
      expect((await send(`POST /sandboxes/${id}/resume`, {})).status).toBe(201);
    }
    expect((await readdir(fileOf(id, "etc"))).toSorted()).toEqual(
      ["kept", "linked", "newest", "of-27"].toSorted(),
    );
    expect([await text(id, "etc/newest"), await text(id, "etc/linked")]).toEqual(["27", "2"]);
    const { spec } = Object(place.world.api.objects.get(`pods/${id}`));
    const [, digest = ""] = String(spec.containers[0].image).split("@");
    const { manifest, config } = await readImage(place.snapshots, digest, BASIC);
    // The 25th pause made one layer of 25; two more are upon it and the template.
    expect(manifest.layers).toHaveLength(4);
    expect(Object(config).config.Labels["io.sandbox-mcp.snapshot-depth"]).toBe("3");
  },
);

test("what is refused: a pause of a paused one, its timeout, snapshots and forks of it, a resume of a running one", async () => {
  const { id } = await create();
  expect((await send(`POST /sandboxes/${id}/resume`, {})).status).toBe(409);
  await send(`POST /sandboxes/${id}/pause`);
  const statuses = [
    await send(`POST /sandboxes/${id}/pause`),
    await send(`POST /sandboxes/${id}/timeout`, { timeout: 60 }),
    await send(`POST /sandboxes/${id}/snapshots`, {}),
    await send(`POST /sandboxes/${id}/fork`, {}),
    await send(`POST /sandboxes/iaaaaaaaaaaaaaaaaaaaa/pause`),
  ].map(({ status }) => status);
  expect(statuses).toEqual([409, 404, 409, 409, 404]);
  expect((await send(`DELETE /sandboxes/${id}`)).status).toBe(204);
  expect(place.world.api.objects.has(`configmaps/${id}`)).toBe(false);
});

test("a sandbox whose pause is asked of two fronts is paused once, and connects at once resume it once", async () => {
  const { id } = await create();
  const pauses = await Promise.all([
    send(`POST /sandboxes/${id}/pause`),
    send(`POST /sandboxes/${id}/pause`, undefined, place.second),
  ]);
  for (const { status } of pauses) expect([204, 409]).toContain(status);
  expect(imagesOf(id)).toHaveLength(1);
  const connects = await Promise.all([
    send(`POST /sandboxes/${id}/connect`, { timeout: 60 }),
    send(`POST /sandboxes/${id}/connect`, { timeout: 60 }, place.second),
  ]);
  expect(connects.map(({ status }) => status).toSorted((left, right) => left - right)).toEqual([
    200, 201,
  ]);
});

test(
  "at its timeout one is paused, and traffic with its token resumes it",
  { timeout: LONG },
  async () => {
    const { id, token } = await create({
      timeout: 1,
      autoPause: true,
      autoResume: { enabled: true },
    });
    await expect
      .poll(async () => (await send(`GET /sandboxes/${id}`)).body.state, SETTLED)
      .toBe("paused");
    await expect.poll(() => hasPod(id), SETTLED).toBe(false);
    expect(await enter(id, "wrong")).toBe(403);
    expect(hasPod(id)).toBe(false);
    expect(await enter(id, token, place.second)).toBe(204);
    const { body } = await send(`GET /sandboxes/${id}`);
    expect(body.state).toBe("running");
    expect(Date.parse(body.endAt) - Date.parse(body.startedAt)).toBe(300_000);
  },
);

test("names of sandboxes that nobody has keep no paused one from its traffic", async () => {
  const { id, token } = await create({ autoPause: true, autoResume: { enabled: true } });
  expect((await send(`POST /sandboxes/${id}/pause`)).status).toBe(204);
  const names = Array.from({ length: 60 }, (_none, index) => `i${String(index).padStart(20, "0")}`);
  const statuses = await Promise.all(names.map(async (name) => enter(name, token)));
  expect(new Set(statuses)).toEqual(new Set([502]));
  expect(await enter(id, token)).toBe(204);
});

test("programs go on until a front has a place for their snapshot", { timeout: LONG }, async () => {
  const ids = await Promise.all(Array.from({ length: 5 }, async () => (await create()).id));
  const released = Promise.withResolvers<void>();
  using held = atStep("image.recorded", () => released.promise, 4);
  const pauses = ids.map(async (id) => send(`POST /sandboxes/${id}/pause`));
  await expect.poll(() => held.reached, SETTLED).toBe(4);
  const stopped = ids.filter((id) => place.world.daemons.areStopped(id));
  const waits = ids.filter((id) => !stopped.includes(id));
  expect(waits).toHaveLength(1);
  // Until then it is no sandbox that is being paused.
  expect((await send(`GET /sandboxes/${waits[0]}`)).body.state).toBe("running");
  released.resolve();
  expect((await Promise.all(pauses)).map(({ status }) => status)).toEqual(ids.map(() => 204));
});

test.for(["the same front", "another front"] as const)(
  "a pause waits for a snapshot of its sandbox that %s takes",
  { timeout: LONG },
  async (where) => {
    const { id } = await create();
    const begun = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    // Once only: the image of the pause has this step too.
    using held = atStep("image.recorded", async () => {
      begun.resolve();
      await released.promise;
    });
    const taken = send(`POST /sandboxes/${id}/snapshots`, {});
    await begun.promise;
    const base = where === "another front" ? place.second : place.url;
    const from = place.world.api.calls.length;
    const paused = send(`POST /sandboxes/${id}/pause`, undefined, base);
    // It has read the record, and begins no change of it.
    const calls = () => place.world.api.calls.slice(from);
    await expect.poll(calls, SETTLED).toContain(`GET configmaps/${id}`);
    await send(`GET /sandboxes/${id}`, undefined, base);
    expect(calls()).not.toContain(`PATCH configmaps/${id}`);
    released.resolve();
    expect([held.wasReached, (await taken).status, (await paused).status]).toEqual([
      true,
      201,
      204,
    ]);
    expect((await send(`GET /sandboxes/${id}`)).body.state).toBe("paused");
  },
);

test("one that was not to be resumed by traffic stays paused", async () => {
  const { id, token } = await create();
  await send(`POST /sandboxes/${id}/pause`);
  expect(await enter(id, token)).toBe(502);
  expect(hasPod(id)).toBe(false);
});

test("a key whose front died is answered with its sandbox, which is paused by now", async () => {
  const again = async () => {
    const reply = await callFront(place.url, {
      method: "POST",
      path: "/v2/sandboxes",
      headers: { "idempotency-key": "paused-since" },
      body: { templateID: "base", timeout: 300 },
    });
    return { status: reply.status, id: Object(reply.body).sandboxID };
  };
  const { id } = await again();
  await send(`POST /sandboxes/${id}/pause`);
  const { api } = place.world;
  const [path = ""] = [...api.objects.keys()].filter((name) => name.includes("/creation-"));
  api.change(path, (object) => {
    const data = Object(object["data"]);
    const creation = { ...JSON.parse(data.creation), owner: "gone", isKept: false };
    data.creation = JSON.stringify(creation);
  });
  await expect.poll(again, SETTLED).toEqual({ status: 201, id });
});
