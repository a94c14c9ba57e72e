/** Bodies of the control API about templates, in the wire's own spelling. Source: docs/wire.md. */

import { z } from "../common/schema.ts";
import { boundedText, MAX_REFERENCE_CHARACTERS } from "./bounds.ts";

const reference = boundedText(MAX_REFERENCE_CHARACTERS);

const buildSchema = z.object({
  buildID: z.string(),
  status: z.enum(["waiting", "building", "ready", "error"]).optional(),
  createdAt: z.string(),
  updatedAt: z.string(),
  finishedAt: z.string().optional(),
  cpuCount: z.number(),
  memoryMB: z.number(),
  diskSizeMB: z.number().optional(),
  envdVersion: z.string().optional(),
  /** What runs at each start of a sandbox. */
  startCmd: z.string().optional(),
});

/** Reply of `GET /templates/{templateID}`. */
export const templateSchema = z.object({
  templateID: z.string(),
  public: z.boolean(),
  aliases: z.array(z.string()),
  names: z.array(z.string()),
  createdAt: z.string(),
  updatedAt: z.string(),
  lastSpawnedAt: z.string().nullable(),
  spawnCount: z.number(),
  builds: z.array(buildSchema),
});

export type TemplateBody = z.infer<typeof templateSchema>;

/** Body of `PATCH /templates/{templateID}`, in both generations. */
export const templateUpdateSchema = z.object({ public: z.boolean() });

/** Reply of `PATCH /v2/templates/{templateID}`. */
export const templateNamesSchema = z.object({ names: z.array(z.string()) });

/** Body of `POST /templates/tags`. */
export const tagRequestSchema = z.object({ target: reference, tags: z.array(reference) });

/** Body of `DELETE /templates/tags`. */
export const untagRequestSchema = z.object({ name: reference, tags: z.array(reference) });

/** Reply of `POST /templates/tags`. */
export const assignedTagsSchema = z.object({ tags: z.array(z.string()), buildID: z.string() });

/** One tag of `GET /templates/{templateID}/tags`. */
export const templateTagSchema = z.object({
  tag: z.string(),
  buildID: z.string(),
  createdAt: z.string(),
});

export type TemplateTagBody = z.infer<typeof templateTagSchema>;

/** One template of `GET /templates`. */
export const listedTemplateSchema = z.object({
  templateID: z.string(),
  buildID: z.string(),
  cpuCount: z.number(),
  memoryMB: z.number(),
  diskSizeMB: z.number(),
  public: z.boolean(),
  aliases: z.array(z.string()),
  names: z.array(z.string()),
  createdAt: z.string(),
  updatedAt: z.string(),
  createdBy: z.unknown(),
  lastSpawnedAt: z.string().nullable(),
  spawnCount: z.number(),
  buildCount: z.number(),
  envdVersion: z.string(),
  buildStatus: z.string(),
  startCmd: z.string().optional(),
});

export type ListedTemplateBody = z.infer<typeof listedTemplateSchema>;
