/** Volumes over the wire: their names, their mounts, and what refuses them. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { volumeSchema } from "../../src/wire/control.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service[Symbol.asyncDispose]());

const UNKNOWN = "00000000-0000-4000-8000-000000000000";

async function create(name: unknown) {
  const { status, body } = await service.call({ method: "POST", path: "/volumes", body: { name } });
  return { status, body };
}

test("a volume is made, found, listed and removed", async () => {
  const made = await create("data_1");
  expect(made.status).toBe(201);
  const volume = volumeSchema.strict().parse(made.body);
  const path = `/volumes/${volume.volumeID}`;
  expect((await service.call({ path })).body).toEqual(volume);
  const { token: _token, ...listed } = volume;
  expect((await service.call({ path: "/volumes" })).body).toEqual([listed]);
  expect(await create("data_1")).toEqual({
    status: 400,
    body: { code: 400, message: "Volume with name 'data_1' already exists" },
  });
  expect((await service.call({ method: "DELETE", path })).status).toBe(204);
  expect((await service.call({ path })).body).toEqual({ code: 404, message: "Volume not found" });
  expect((await service.call({ method: "DELETE", path })).status).toBe(404);
  expect(await readdir(join(service.home, "volumes"))).toEqual([]);
});

test.for(["", "a b", "../x", "a/b", "ä"])("the name %j is refused", async (name) => {
  expect(await create(name)).toEqual({
    status: 400,
    body: { code: 400, message: "Invalid volume name" },
  });
});

test("what is no identifier is told from one that is unknown", async () => {
  expect((await service.call({ path: "/volumes/nope" })).body).toEqual({
    code: 400,
    message: "Invalid volume ID",
  });
  expect((await service.call({ path: `/volumes/${UNKNOWN}` })).status).toBe(404);
});

test("a mounted volume is told of and not removed, also while the sandbox is paused", async () => {
  const { volumeID } = volumeSchema.parse((await create("shared")).body);
  const volumeMounts = [{ name: "shared", path: "/data" }];
  const { sandboxID } = await service.create({ volumeMounts });
  const { body } = await service.call({ path: `/sandboxes/${sandboxID}` });
  expect(body).toMatchObject({ volumeMounts });
  await service.embedded.sandboxes.pause(sandboxID, false);
  expect(await service.call({ method: "DELETE", path: `/volumes/${volumeID}` })).toMatchObject({
    status: 409,
    body: { code: 409, message: "Volume is mounted in a sandbox" },
  });
  await service.embedded.sandboxes.kill(sandboxID);
  expect((await service.call({ method: "DELETE", path: `/volumes/${volumeID}` })).status).toBe(204);
});

test("every fault of a list of mounts is named", async () => {
  await create("one");
  const mounts = [
    { name: "none", path: "/a" },
    { name: "one", path: "" },
    { name: "one", path: "a" },
    { name: "one", path: "/a/../b" },
    { name: "one", path: "/c" },
    { name: "one", path: "/c/" },
    { name: "one", path: "/proc/1" },
    { name: "one", path: "/c/d" },
    { name: "one", path: "/bin" },
  ];
  const { body } = await service.call({
    method: "POST",
    path: "/v2/sandboxes",
    body: { templateID: "base", volumeMounts: mounts },
  });
  const lines = [
    "invalid mounts:",
    "\t- volume mount #0: volume 'none' not found",
    "\t- volume mount #1: path cannot be empty",
    "\t- volume mount #2: path must be absolute",
    "\t- volume mount #3: path must not contain any '.' or '..' components",
    "\t- volume mount #5: path '/c/' is already used",
    "\t- volume mount #6: path '/proc/1' is reserved",
    "\t- volume mount #7: path '/c/d' and path '/c' lie one inside the other",
    "\t- volume mount #8: path '/bin' is reserved",
  ];
  expect(body).toEqual({ code: 400, message: lines.join("\n") });
});
