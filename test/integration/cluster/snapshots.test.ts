/** Snapshots and forks of sandboxes that are Pods: real layers in a real registry. */

import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { callFront, type PodWorld } from "../../support/cluster/pod-front.ts";
import { readImage } from "../../support/cluster/pod-images.ts";
import {
  BASIC,
  startSnapshotWorld,
  type SnapshotWorld,
} from "../../support/cluster/snapshot-world.ts";

const idSchema = z.object({ sandboxID: z.string() });
const snapshotSchema = z.object({ snapshotID: z.string(), names: z.array(z.string()) });

let place: SnapshotWorld;
let world: PodWorld;
let url: string;
let second: string;
let snapshots: string;
let directory: string;

beforeAll(async () => {
  place = await startSnapshotWorld();
  ({ world, url, second, snapshots, directory } = place);
}, 60_000);

afterAll(async () => place[Symbol.asyncDispose]());

async function send(method: string, path: string, { body, base = url }: SendOptions = {}) {
  const reply = await callFront(base, { method, path, body });
  return { status: reply.status, body: reply.body };
}

interface SendOptions {
  readonly body?: unknown;
  readonly base?: string;
}

async function create(templateID: string, base = url): Promise<string> {
  const { status, body } = await send("POST", "/sandboxes", { body: { templateID }, base });
  expect({ status, body }).toMatchObject({ status: 201 });
  return idSchema.parse(body).sandboxID;
}

async function snapshot(sandboxId: string, body: unknown = {}) {
  const reply = await send("POST", `/sandboxes/${sandboxId}/snapshots`, { body });
  expect(reply).toMatchObject({ status: 201 });
  return snapshotSchema.parse(reply.body);
}

const fileOf = (sandboxId: string, path: string) => join(directory, sandboxId, path);
const text = async (sandboxId: string, path: string) =>
  readFile(fileOf(sandboxId, path), "utf8").catch(() => undefined);

test("a sandbox of a snapshot has its files, from every front, and a snapshot of its own", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/new"), "new");
  await rm(fileOf(source, "etc/gone"));
  const { snapshotID, names } = await snapshot(source);
  expect({ names, tag: snapshotID.split(":")[1] }).toEqual({ names: [], tag: "default" });
  await writeFile(fileOf(source, "etc/later"), "later");
  const copy = await create(snapshotID, second);
  const seen = ["etc/kept", "etc/new", "etc/gone", "etc/later"].map(async (path) =>
    text(copy, path),
  );
  expect(await Promise.all(seen)).toEqual(["kept", "new", undefined, undefined]);
  await writeFile(fileOf(copy, "etc/deeper"), "deeper");
  const deeper = await create((await snapshot(copy)).snapshotID);
  const deepFiles = ["etc/new", "etc/gone", "etc/deeper"].map(async (path) => text(deeper, path));
  expect(await Promise.all(deepFiles)).toEqual(["new", undefined, "deeper"]);
});

test("the image has the layers and the configuration of its base, and the changes on top", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/kept"), "changed");
  await snapshot(source, { name: "imaged" });
  const copy = await create("imaged");
  const image = imageOf(copy);
  const digest = image.split("@")[1] ?? "";
  const { manifest, config, layers } = await readImage(snapshots, digest, BASIC);
  expect(manifest.layers.map(({ mediaType }) => mediaType)).toEqual([
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+gzip",
  ]);
  expect(config).toMatchObject({
    architecture: "amd64",
    config: { Env: ["A=b"], Labels: { kept: "yes", "io.sandbox-mcp.snapshot-depth": "1" } },
  });
  expect(layers[1]?.includes("changed")).toBe(true);
});

test("a named snapshot is found by its name, listed once, and a newer one takes its place", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/version"), "1");
  expect(await snapshot(source, { name: "named" })).toEqual({
    snapshotID: "local/named:default",
    names: ["local/named"],
  });
  await writeFile(fileOf(source, "etc/version"), "2");
  await snapshot(source, { name: "named" });
  expect(await text(await create("named", second), "etc/version")).toBe("2");
  const { body } = await send("GET", "/snapshots?name=named");
  expect(body).toEqual([{ snapshotID: "local/named:default", names: ["local/named"] }]);
  const ofSource = await send("GET", `/snapshots?sandboxID=${source}`);
  expect(ofSource.body).toEqual(body);
});

test("a newer one takes the place of one of a front whose clock is ahead", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/version"), "1");
  await snapshot(source, { name: "ahead" });
  const { objects } = world.api;
  const recordOf = (path: string) => JSON.parse(Object(objects.get(path)?.["data"]).snapshot);
  const [path = "none"] = [...objects.keys()].filter(
    (key) => key.startsWith("configmaps/snapshot-") && recordOf(key).alias === "ahead",
  );
  const ahead = { ...recordOf(path), createdAtMs: Date.now() + 3_600_000 };
  world.api.change(path, ({ data }) => {
    Object.assign(Object(data), { snapshot: JSON.stringify(ahead) });
  });
  await writeFile(fileOf(source, "etc/version"), "2");
  await snapshot(source, { name: "ahead" });
  expect(await text(await create("ahead", second), "etc/version")).toBe("2");
});

test("two without a change between them are two images: the end of one leaves the other", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/equal"), "equal");
  await snapshot(source, { name: "equal-one" });
  await snapshot(source, { name: "equal-two" });
  const one = await create("equal-one");
  const two = await create("equal-two");
  expect(imageOf(one)).not.toBe(imageOf(two));
  for (const id of [one, two]) await send("DELETE", `/sandboxes/${id}`);
  expect((await send("DELETE", "/templates/equal-one")).status).toBe(204);
  expect(await text(await create("equal-two"), "etc/equal")).toBe("equal");
});

test("one that a sandbox stands on stays; after its end image and record are gone", async () => {
  const source = await create("base");
  await snapshot(source, { name: "removed" });
  const copy = await create("removed");
  const digest = imageOf(copy).split("@")[1] ?? "";
  expect((await send("DELETE", "/templates/removed:nope")).status).toBe(404);
  const refused = await send("DELETE", "/templates/removed");
  expect(refused.status).toBe(400);
  await send("DELETE", `/sandboxes/${copy}`);
  expect((await send("DELETE", "/templates/removed")).status).toBe(204);
  // One that is not there is told from what cannot be changed.
  expect((await send("DELETE", "/templates/removed")).status).toBe(404);
  expect((await send("DELETE", "/templates/base")).status).toBe(501);
  const reading = readImage(snapshots, digest, BASIC);
  await expect(reading).rejects.toThrow("404");
  const again = await send("POST", "/sandboxes", { body: { templateID: "removed" } });
  expect(again.status).toBe(404);
  expect((await send("GET", "/snapshots?name=removed")).body).toEqual([]);
});

test("the time of forks begins when all have started", { timeout: 60_000 }, async () => {
  const source = await create("base");
  let lastMs = 0;
  place.world.api.onChange((type, plural) => {
    if (type === "ADDED" && plural === "pods") lastMs = Date.now();
  });
  // More than start at once.
  const { body } = await send("POST", `/sandboxes/${source}/fork`, {
    body: { count: 6, timeout: 60 },
  });
  const answeredMs = Date.now();
  const forks = z.array(z.object({ sandbox: idSchema })).parse(body);
  const details = await Promise.all(
    forks.map(async ({ sandbox }) => send("GET", `/sandboxes/${sandbox.sandboxID}`)),
  );
  const ends = details.map((reply) => Date.parse(Object(reply.body).endAt));
  expect(ends).toHaveLength(6);
  for (const endAtMs of ends) {
    expect(endAtMs).toBeGreaterThan(lastMs + 60_000);
    expect(endAtMs).toBeLessThanOrEqual(answeredMs + 60_000);
  }
});

test("forks have the files of their source and go on alone", { timeout: 60_000 }, async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/fork"), "same");
  const { status, body } = await send("POST", `/sandboxes/${source}/fork`, { body: { count: 2 } });
  expect(status).toBe(201);
  const forks = z.array(z.object({ sandbox: idSchema })).parse(body);
  expect(forks).toHaveLength(2);
  for (const { sandbox } of forks) {
    expect(await text(sandbox.sandboxID, "etc/fork")).toBe("same");
    await writeFile(fileOf(sandbox.sandboxID, "etc/fork"), sandbox.sandboxID);
  }
  expect(await text(source, "etc/fork")).toBe("same");
  expect((await send("GET", `/snapshots?sandboxID=${source}`)).body).toEqual([]);
  const [first] = forks;
  const image = imageOf(first?.sandbox.sandboxID ?? "");
  for (const { sandbox } of forks) await send("DELETE", `/sandboxes/${sandbox.sandboxID}`);
  // The leader removes the image of forks some time after the last of them.
  const reading = async () =>
    readImage(snapshots, image.split("@")[1] ?? "", BASIC).then(
      () => "there",
      (error: unknown) => String(error),
    );
  await expect.poll(reading, { timeout: 40_000, interval: 500 }).toContain("404");
});

test("a daemon that was started anew still knows what its image contained", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/before"), "before");
  await world.daemons.restart(source);
  const copy = await create((await snapshot(source)).snapshotID);
  expect(await text(copy, "etc/before")).toBe("before");
});

test("two snapshots of a sandbox at once: one may be refused, and what is there is whole", async () => {
  const source = await create("base");
  await writeFile(fileOf(source, "etc/large"), Buffer.alloc(8_000_000, 7));
  const path = `/sandboxes/${source}/snapshots`;
  const replies = await Promise.all([
    send("POST", path, { body: {} }),
    send("POST", path, { body: {}, base: second }),
  ]);
  const statuses = replies.map(({ status }) => status).toSorted((left, right) => left - right);
  expect([
    [201, 201],
    [201, 409],
  ]).toContainEqual(statuses);
  const kept = snapshotSchema.parse(replies.find(({ status }) => status === 201)?.body);
  expect((await text(await create(kept.snapshotID), "etc/large"))?.length).toBe(8_000_000);
});

test("what is malformed or of nobody is refused, and nothing is left", async () => {
  const source = await create("base");
  const before = records();
  const refusals = [
    await send("POST", `/sandboxes/${source}/snapshots`, { body: { name: "Not A Name" } }),
    await send("POST", `/sandboxes/${source}/snapshots`, { body: { name: "other/name" } }),
    await send("POST", "/sandboxes/iaaaaaaaaaaaaaaaaaaaa/snapshots", { body: {} }),
    await send("POST", `/sandboxes/${source}/fork`, { body: { count: 0 } }),
  ];
  expect(refusals.map(({ status }) => status)).toEqual([400, 400, 404, 400]);
  await rm(fileOf("", `${source}.baseline`));
  expect(await send("POST", `/sandboxes/${source}/snapshots`, { body: {} })).toMatchObject({
    status: 409,
    body: { message: expect.stringContaining("does not know what its image contained") },
  });
  expect(records()).toEqual(before);
});

test("a front without a registry offers neither, and its Pods list no files", async () => {
  const base = await place.startPlain();
  const source = await create("base", base);
  const { body } = await send("GET", `/sandboxes/${source}`, { base });
  expect(Object(body).missingAbilities).toEqual(expect.arrayContaining(["snapshot", "fork"]));
  const refusals = [
    await send("POST", `/sandboxes/${source}/snapshots`, { body: {}, base }),
    await send("POST", `/sandboxes/${source}/fork`, { body: { count: 1 }, base }),
  ];
  expect(refusals.map(({ status }) => status)).toEqual([501, 501]);
  const listed = await send("GET", "/snapshots", { base });
  expect([listed.status, listed.body]).toEqual([200, []]);
  expect(JSON.stringify(specOf(source))).not.toContain("baseline");
  expect(existsSync(fileOf("", `${source}.baseline`))).toBe(false);
  const offered = await create("base");
  expect(JSON.stringify(specOf(offered))).toContain("baseline");
  expect(existsSync(fileOf("", `${offered}.baseline`))).toBe(true);
});

function specOf(sandboxId: string): unknown {
  return world.api.objects.get(`pods/${sandboxId}`)?.["spec"];
}

function records(): string[] {
  return [...world.api.objects.keys()].filter((name) => name.startsWith("configmaps/snapshot-"));
}

function imageOf(sandboxId: string): string {
  const image: string = Object(specOf(sandboxId)).containers[0].image;
  return image;
}
