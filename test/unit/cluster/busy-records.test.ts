/** The record of a snapshot that others change all the time. */

import { expect, test } from "vitest";
import type { ApiCall } from "../../../src/cluster/api.ts";
import { changeSnapshot, snapshotName } from "../../../src/cluster/snapshots/records.ts";
import { SandboxError } from "../../../src/common/errors.ts";

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

test("a change that never comes through is not taken for one of a record that is gone", async () => {
  const api = {
    namespace: "test",
    async call({ method }: ApiCall) {
      if (method === "PATCH") throw new SandboxError("failed_precondition", "planned conflict");
      const metadata = { name: snapshotName("build"), uid: "uid", resourceVersion: "1" };
      return { metadata, data: { snapshot: JSON.stringify(SNAPSHOT) } };
    },
    watch: () => Promise.reject(new Error("not watched")),
    read: () => Promise.reject(new Error("not read")),
    [Symbol.dispose]: () => undefined,
  };
  const changing = changeSnapshot(api, "build", {
    changes: { state: "removing" },
    holds: () => true,
  });
  await expect(changing).rejects.toMatchObject({ code: "unavailable" });
});
