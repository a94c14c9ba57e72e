/** Records of a template that has no build yet, and of a build that is ready at once. */

import { randomUUID } from "node:crypto";
import type { BuildRecord, TemplateRecord } from "../../store/store.ts";
import { randomId } from "../../wire/address.ts";

type DerivedFact =
  | "buildId"
  | "status"
  | "sourceSandboxId"
  | `${"created" | "updated" | "finished"}AtMs`;

export function newTemplate(team: string, name: string | null, nowMs: number): TemplateRecord {
  return {
    templateId: randomId(),
    kind: "template",
    team,
    name,
    isPublic: false,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
    lastSpawnedAtMs: null,
    spawnCount: 0,
  };
}

/** A build that no sandbox made. */
export function newReadyBuild(facts: Omit<BuildRecord, DerivedFact>, nowMs: number): BuildRecord {
  return {
    ...facts,
    buildId: randomUUID(),
    status: "ready",
    sourceSandboxId: null,
    createdAtMs: nowMs,
    updatedAtMs: nowMs,
    finishedAtMs: nowMs,
  };
}
