/** A template build that an instance runs which has no sandbox: it fetches its image. */

import type { TemplateBuildRecord } from "../../../src/store/build-records.ts";

export const RUNNING: TemplateBuildRecord = {
  buildId: "running",
  templateId: "template",
  team: "local",
  owner: "0123456789abcdef",
  status: "building",
  tags: ["default"],
  createdAtMs: 1,
  updatedAtMs: 1,
  finishedAtMs: null,
  reason: null,
};
