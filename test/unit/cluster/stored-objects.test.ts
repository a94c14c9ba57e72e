/** Objects that were copied or edited by hand, or that a newer version wrote: what is made of them. */

import assert from "node:assert";
import { expect, test } from "vitest";
import type { ApiCall } from "../../../src/cluster/api/api.ts";
import {
  changeCreation,
  creationName,
  storedCreationSchema,
} from "../../../src/cluster/pods/creations.ts";
import {
  changeRecord,
  isKnown,
  storedSchema,
  usesImage,
  usesVolume,
} from "../../../src/cluster/records.ts";
import { snapshotName, storedSnapshotSchema } from "../../../src/cluster/snapshots/records.ts";
import { claimName, storedVolumeSchema } from "../../../src/cluster/volumes/records.ts";
import { RECORD_FACTS } from "../../support/cluster/pod-record.ts";

const named = (name: string) => ({ name, uid: "uid", resourceVersion: "1" });

const RECORD = {
  sandboxId: "ione",
  team: "local",
  templateId: "template",
  buildId: "build",
  alias: "base",
  owner: "front",
  bootId: "boot",
  state: "running",
  volumeMounts: [{ name: "data", path: "/data", volumeId: "volume" }],
};

const KEY = { team: "local", key: "key" };

const CREATION = {
  ...KEY,
  fingerprint: "print",
  owner: "front",
  attempt: "attempt",
  createdAtMs: 1,
  sandbox: null,
  isKept: false,
};

test("a record that cannot be read may use what its text names, and nothing else", () => {
  const text = JSON.stringify({ ...RECORD, state: "of a newer version" });
  const stored = storedSchema.parse({ metadata: named("ione"), data: { record: text } });
  expect(stored.record).toBeUndefined();
  expect([usesImage(stored, "build"), usesImage(stored, "another")]).toEqual([true, false]);
  expect([usesVolume(stored, "volume"), usesVolume(stored, "another")]).toEqual([true, false]);
});

/** An API server that keeps what it is sent. */
function recording(name: string) {
  const bodies: unknown[] = [];
  const api = {
    namespace: "test",
    async call({ body }: ApiCall) {
      bodies.push(body);
      return { metadata: named(name), data: Object(body).data };
    },
    watch: () => Promise.reject(new Error("not watched")),
    read: () => Promise.reject(new Error("not read")),
    [Symbol.dispose]: () => undefined,
  };
  return { api, written: (key: string) => JSON.parse(Object(bodies[0]).data[key]) };
}

test("a change of a record keeps what a newer version wrote beside it and within it", async () => {
  const newer = {
    ofANewerVersion: { a: "b" },
    limits: { ...RECORD_FACTS.limits, gpus: 1 },
    volumeMounts: [{ name: "data", path: "/data", volumeId: "volume", isReadOnly: true }],
    memory: { isCarried: false, bytes: 7 },
  };
  const text = JSON.stringify({ ...RECORD, ...RECORD_FACTS, ...newer });
  const stored = storedSchema.parse({ metadata: named("ione"), data: { record: text } });
  assert(isKnown(stored));
  const { api, written } = recording("ione");
  await changeRecord(api, stored, { endAtMs: 3 });
  expect(written("record")).toMatchObject({ endAtMs: 3, ...newer });
});

test("a change of the record of a key keeps what a newer version wrote of its sandbox", async () => {
  const sandbox = {
    sandboxId: "ione",
    templateId: "template",
    alias: null,
    isSecured: true,
    isPrivate: false,
    allowsInternet: null,
    memory: null,
    isolation: "none",
    ofANewerVersion: true,
  };
  const creation = { ...CREATION, sandbox, alsoNewer: 1 };
  const name = creationName(KEY);
  const data = { creation: JSON.stringify(creation) };
  const stored = storedCreationSchema.parse({ metadata: named(name), data });
  assert(stored.creation !== undefined);
  const { api, written } = recording(name);
  await changeCreation(api, { ...stored, creation: stored.creation }, { isKept: true });
  expect(written("creation")).toEqual({ ...creation, isKept: true });
});

test("a record with a change that cannot be read is left as it is", () => {
  const change = JSON.stringify({ kind: "of a newer version", owner: "front" });
  const data = { record: JSON.stringify({ ...RECORD, ...RECORD_FACTS }), change };
  const stored = storedSchema.parse({ metadata: named("ione"), data });
  expect([stored.record, usesImage(stored, "build")]).toEqual([undefined, true]);
});

test.for([
  { name: snapshotName("build"), isRead: true },
  { name: snapshotName("copy"), isRead: false },
])("the record of a snapshot under the name $name", ({ name, isRead }) => {
  const snapshot = {
    buildId: "build",
    templateId: "template",
    team: "local",
    alias: null,
    tag: "default",
    kind: "pause",
    state: "removing",
    owner: "front",
    isReleased: true,
    sourceSandboxId: "ione",
    createdAtMs: 1,
    registry: "host/repository",
    image: "",
    defaultUser: "user",
    defaultWorkdir: "/home/user",
  };
  const data = { snapshot: JSON.stringify(snapshot) };
  const stored = storedSnapshotSchema.parse({ metadata: named(name), data });
  expect(stored.snapshot !== undefined).toBe(isRead);
});

test.for([
  { name: creationName(KEY), isRead: true },
  { name: "creation-copy", isRead: false },
])("the record of a key under the name $name", ({ name, isRead }) => {
  const data = { creation: JSON.stringify(CREATION) };
  const stored = storedCreationSchema.parse({ metadata: named(name), data });
  expect(stored.creation !== undefined).toBe(isRead);
});

test.for([
  { name: claimName("local", "data"), isRead: true },
  { name: "volume-copy", isRead: false },
])("the claim of a volume under the name $name", ({ name, isRead }) => {
  const facts = { name: "data", team: "local", createdAtMs: 1, sizeMb: 1 };
  const annotations = { "sandbox-mcp.io/volume": JSON.stringify(facts) };
  const stored = storedVolumeSchema.parse({ metadata: { ...named(name), annotations } });
  expect(stored.volume !== undefined).toBe(isRead);
});
