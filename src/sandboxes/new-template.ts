/** The record of a template that has no build yet. */

import type { TemplateRecord } from "../store/store.ts";
import { randomId } from "../wire/address.ts";

export function newTemplate(team: string, name: string, nowMs: number): TemplateRecord {
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
