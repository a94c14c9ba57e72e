/** The row of a build that is ready, for tests that name what counts for them. */

import type { BuildRecord } from "../../../src/store/store.ts";

export const READY_BUILD: BuildRecord = {
  buildId: "build",
  templateId: "template",
  owner: "serve",
  status: "ready",
  sourceSandboxId: null,
  createdAtMs: 0,
  updatedAtMs: 0,
  finishedAtMs: 0,
  limits: { memoryMb: 128, cpus: 1, diskMb: 64, pids: 32 },
  layers: [],
  defaultUser: "user",
  defaultWorkdir: "/",
};
