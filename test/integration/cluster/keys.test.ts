/** Keys of teams in a Secret: made and revoked while fronts run. */

import { expect, test } from "vitest";
import { createClusterApi, type ClusterApi } from "../../../src/cluster/api/api.ts";
import { addKey, KEYS_SECRET, readKeys, removeKey } from "../../../src/cluster/keys.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { makeKey } from "../../../src/sandboxes/keys.ts";
import { startApiServer } from "../../support/cluster/api-server.ts";
import { callFront, POD_KEY, startPodWorld } from "../../support/cluster/pod-front.ts";

/** A key counts at a front some seconds after it was made. */
const POLL = { timeout: 15_000, interval: 200 };

const readToken = async () => undefined;

function openApi(url: string): ClusterApi {
  return createClusterApi({ url: new URL(url), namespace: "test", readToken });
}

function newTeamKey(team: string) {
  return makeKey(createSystemClock(), { name: `key of ${team}`, team });
}

function list(url: string, key: string) {
  return callFront(url, { path: "/sandboxes", headers: { "x-api-key": key } });
}

test(
  "a key counts at every front, for its team alone, until it is revoked",
  { timeout: 60_000 },
  async () => {
    await using world = await startPodWorld();
    using api = openApi(world.api.url);
    const urls = [(await world.start()).url, (await world.start()).url];
    const [first = "", second = ""] = urls;
    const { key, record } = newTeamKey("research");
    expect((await list(first, key)).status).toBe(401);
    await addKey(api, record);
    for (const url of urls) {
      await expect.poll(async () => (await list(url, key)).status, POLL).toBe(200);
    }
    const made = await callFront(first, {
      method: "POST",
      path: "/v2/sandboxes",
      body: { templateID: "base" },
      headers: { "x-api-key": key },
    });
    const { sandboxID } = Object(made.body);
    const path = `/sandboxes/${sandboxID}`;
    expect((await callFront(second, { path, headers: { "x-api-key": key } })).status).toBe(200);
    expect((await callFront(second, { path, headers: { "x-api-key": POD_KEY } })).status).toBe(404);
    expect((await list(second, POD_KEY)).body).toEqual([]);
    await removeKey(api, record);
    for (const url of urls) {
      await expect.poll(async () => (await list(url, key)).status, POLL).toBe(401);
    }
  },
);

test("no key and no team is in the clear but as a hash, and keys outlive an API server that is away", async () => {
  await using world = await startPodWorld();
  using api = openApi(world.api.url);
  const { key, record } = newTeamKey("research");
  await addKey(api, record);
  const { url } = await world.start();
  const text = JSON.stringify(world.api.objects.get(`secrets/${KEYS_SECRET}`));
  const entry = Buffer.from(JSON.stringify(record)).toString("base64");
  expect([text.includes(key), text.includes(key.slice(4)), text.includes(entry)]).toEqual([
    false,
    false,
    true,
  ]);
  world.api.fail(503);
  try {
    expect((await list(url, key)).status).toBe(200);
  } finally {
    world.api.fail(undefined);
  }
});

test("two makers at once lose no key; entries that are not ours are no keys", async () => {
  await using server = await startApiServer();
  using api = openApi(server.url);
  const made = Array.from({ length: 8 }, (_none, index) => newTeamKey(`team-${index}`).record);
  await Promise.all(made.map(async (record) => addKey(api, record)));
  const [known, other] = [made[0], newTeamKey("other").record];
  server.change(`secrets/${KEYS_SECRET}`, (secret) => {
    const data = Object(secret["data"]);
    data["not-a-hash"] = data[known?.hash ?? ""];
    data["0".repeat(64)] = data[known?.hash ?? ""];
    data["1".repeat(64)] = "no base64 of an object";
    data[other.hash] = Buffer.from("{}").toString("base64");
  });
  const found = (await readKeys(api)).map(({ hash }) => hash);
  expect(found.toSorted()).toEqual(made.map(({ hash }) => hash).toSorted());
});

test("a namespace has at most 2,000 keys", async () => {
  await using server = await startApiServer();
  using api = openApi(server.url);
  await addKey(api, newTeamKey("first").record);
  server.change(`secrets/${KEYS_SECRET}`, (secret) => {
    const data = Object(secret["data"]);
    for (let count = 1; count < 2_000; count += 1) {
      const record = { ...newTeamKey("many").record };
      data[record.hash] = Buffer.from(JSON.stringify(record)).toString("base64");
    }
  });
  await expect(addKey(api, newTeamKey("last").record)).rejects.toMatchObject({
    code: "resource_exhausted",
  });
});
