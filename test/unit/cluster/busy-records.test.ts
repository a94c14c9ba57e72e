/** Records of a snapshot and of a sandbox that others change all the time. */

import { expect, test } from "vitest";
import type { ApiCall } from "../../../src/cluster/api/api.ts";
import { createObjectCache } from "../../../src/cluster/api/object-cache.ts";
import { endSandbox } from "../../../src/cluster/pods/end-pod.ts";
import type { StoredSandbox } from "../../../src/cluster/records.ts";
import { changeSnapshot, snapshotName } from "../../../src/cluster/snapshots/records.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { RECORD_FACTS } from "../../support/cluster/pod-record.ts";

const SNAPSHOT = {
  buildId: "build",
  templateId: "template",
  team: "local",
  alias: null,
  tag: "default",
  kind: "pause",
  state: "ready",
  owner: "front",
  isReleased: true,
  sourceSandboxId: "ione",
  createdAtMs: 1,
  registry: "host/repository",
  image: "host/repository@sha256:1",
  defaultUser: "user",
  defaultWorkdir: "/home/user",
};

/** An API server that has this object, which is another one by the time of each change. */
function changing(name: string, data: Readonly<Record<string, string>>) {
  return {
    namespace: "test",
    async call({ method }: ApiCall) {
      if (method !== "GET") throw new SandboxError("failed_precondition", "planned conflict");
      const labels = { "sandbox-mcp.io/part": "sandbox" };
      return { metadata: { name, uid: "uid", resourceVersion: "1", labels }, data };
    },
    watch: () => Promise.reject(new Error("not watched")),
    read: () => Promise.reject(new Error("not read")),
    [Symbol.dispose]: () => undefined,
  };
}

const RECORD = {
  sandboxId: "ione",
  team: "local",
  templateId: "template",
  buildId: "build",
  alias: "base",
  owner: "front",
  bootId: "boot",
  state: "running",
  volumeMounts: [],
};

test("a change that never comes through is not taken for one of a record that is gone", async () => {
  const api = changing(snapshotName("build"), { snapshot: JSON.stringify(SNAPSHOT) });
  const change = changeSnapshot(api, "build", {
    changes: { state: "removing" },
    holds: () => true,
  });
  await expect(change).rejects.toMatchObject({ code: "unavailable" });
});

test("nor is an end that never comes through one of a sandbox that is gone", async () => {
  const record = { ...RECORD_FACTS, ...RECORD };
  const api = changing("ione", { record: JSON.stringify(record) });
  const records = createObjectCache<StoredSandbox>();
  const end = endSandbox({ api, records, log: createSilentLog() }, "ione", { reason: "request" });
  await expect(end).rejects.toMatchObject({ code: "unavailable" });
});
