/**
 * Beside a service, other programs make mount namespaces, with copies of all mounts: sandboxes, volumes
 * and a store come and go as they do without, and no image is mounted by two devices.
 */

import { readdir, readFile } from "node:fs/promises";
import { afterEach, expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import { KEPT } from "../../support/faults/fault-cases.ts";
import { make, openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { copyMounts, copyMountsOften } from "../../support/faults/mount-copies.ts";
import { askVolume, volumeSchema, type VolumeAccess } from "../../support/faults/volume-access.ts";
import { startProgram } from "../../support/program.ts";

const FLAGS = [...NO_POOL, "--disk-mb", "64", "--volume-mb", "64", "--on-exit", "kill"];
const LEVELS = [
  { level: "copy", flags: FLAGS },
  { level: "clone", flags: [...FLAGS, "--store-gb", "24"] },
] as const;
const LIMIT_MS = 180_000;
const ROUNDS = 2;
const POLL = { timeout: 30_000, interval: 50 } as const;

let homes: AsyncDisposableStack = new AsyncDisposableStack();
afterEach(async () => {
  await homes[Symbol.asyncDispose]();
  homes = new AsyncDisposableStack();
}, LIMIT_MS);

async function openHome(flags: readonly string[]): Promise<FaultHome> {
  const home = homes.use(await openFaultHome(flags));
  await home.start();
  return home;
}

/** Files of a home that loop devices have; one that was removed is named so. */
async function imagesOf(home: FaultHome): Promise<readonly string[]> {
  const images: string[] = [];
  for (const name of await readdir("/sys/block")) {
    const path = `/sys/block/${name}/loop/backing_file`;
    const image = (await readFile(path, "utf8").catch(() => "")).trimEnd();
    if (image.startsWith(home.path)) images.push(image.slice(home.path.length));
  }
  return images.toSorted();
}

async function call(home: FaultHome, words: string, body?: unknown): Promise<unknown> {
  const [method = "", path = ""] = words.split(" ");
  const answer = await home.call(method, path, body);
  if (answer === undefined || answer.status >= 300) {
    throw new Error(`${words}: ${JSON.stringify(answer)}`);
  }
  return answer.body;
}

async function createVolume(home: FaultHome, name: string): Promise<VolumeAccess> {
  return volumeSchema.parse(await call(home, "POST /volumes", { name }));
}

/** Everything that mounts and unmounts; all of it is removed again. */
async function useAll(home: FaultHome, word: string): Promise<void> {
  const before = await listIds(home);
  const volume = await createVolume(home, word);
  await askVolume(home, volume, { path: "up", body: word });
  const id = await make(home, { volumeMounts: [{ name: word, path: "/data" }] });
  const see = async (sandboxId: string) => (await home.enter(sandboxId, KEPT.path))?.body;
  const found = async (sandboxId: string) =>
    (await home.enter(sandboxId, "/files?path=/data/up&username=root"))?.body;
  await home.enter(id, KEPT.path, word);
  for (const memory of [true, false]) {
    await call(home, `POST /sandboxes/${id}/pause`, { memory });
    await call(home, `POST /sandboxes/${id}/connect`, { timeout: 3600 });
    expect([await see(id), await found(id)]).toEqual([word, word]);
  }
  await call(home, `POST /sandboxes/${id}/snapshots`, { name: word });
  await call(home, `POST /sandboxes/${id}/fork`, { count: 1, timeout: 3600 });
  const copy = await make(home, { templateID: word });
  expect(await see(copy)).toBe(word);
  for (const one of await listIds(home)) {
    if (!before.includes(one)) await call(home, `DELETE /sandboxes/${one}`);
  }
  await call(home, `DELETE /templates/${word}`);
  await call(home, `DELETE /volumes/${volume.volumeID}`);
}

async function listIds(home: FaultHome): Promise<readonly string[]> {
  const text = JSON.stringify(await call(home, "GET /v2/sandboxes?limit=100"));
  return [...text.matchAll(/"sandboxID":"([^"]+)"/g)].map(([, id]) => id ?? "");
}

/** That of the store is there while the service is. */
const isOfStore = (image: string) => image === "/store.img";

test.for(LEVELS)(
  "with new copies all the time, level $level",
  { timeout: LIMIT_MS },
  async ({ flags }) => {
    const home = await openHome(flags);
    await using others = new AsyncDisposableStack();
    others.use(copyMountsOften());
    for (let round = 0; round < ROUNDS; round += 1) {
      await useAll(home, `round-${round}`);
      const left = async () => (await imagesOf(home)).filter((image) => !isOfStore(image));
      await expect.poll(left, POLL).toEqual([]);
      await home.stop("SIGTERM");
      await expect.poll(() => imagesOf(home), POLL).toEqual([]);
      await home.start();
    }
  },
);

test.for(LEVELS)(
  "with a copy that stays, level $level",
  { timeout: LIMIT_MS },
  async ({ flags }) => {
    const home = await openHome(flags);
    const volume = await createVolume(home, "kept");
    const id = await make(home, { volumeMounts: [{ name: "kept", path: "/data" }] });
    await home.enter(id, KEPT.path, KEPT.text);
    await askVolume(home, volume, { path: "up", body: "up" });
    const before = await imagesOf(home);
    await using others = new AsyncDisposableStack();
    others.use(await copyMounts());

    // Halted, it has no device; booted, it has one.
    await call(home, `POST /sandboxes/${id}/pause`, { memory: false });
    expect((await imagesOf(home)).filter((image) => image.includes(id))).toEqual([]);
    await call(home, `POST /sandboxes/${id}/connect`, { timeout: 3600 });
    expect(await imagesOf(home)).toEqual(before);
    await useAll(home, "more");

    // What a service unmounts stays mounted in the copy, and the next service mounts no image twice.
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      await home.stop(signal);
      expect(await startProgram(["gc", "--home", home.path]).exited()).toBe(0);
      expect((await takeCensus(home.path)).mounts).toEqual([]);
      await home.start();
      expect(await askVolume(home, volume, { path: "up" })).toEqual({ status: 200, text: "up" });
      const images = await imagesOf(home);
      expect(images).toEqual([...new Set(images)]);
    }
    await call(home, `DELETE /volumes/${volume.volumeID}`);
    await expect
      .poll(async () => (await imagesOf(home)).filter((image) => !isOfStore(image)), POLL)
      .toEqual([]);
  },
);
