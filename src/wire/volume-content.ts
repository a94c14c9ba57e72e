/** Bodies of `/volumecontent/{volumeID}/...`: the content of a volume by its token. */

import { z } from "../common/schema.ts";
import { wholeNumber } from "./bounds.ts";

/** Of the container of a sandbox: other ids do not exist inside. */
const MAX_ID = 65_535;
const MAX_MODE = 0o7777;

const id = z.int().min(0).max(MAX_ID);
const mode = z.int().min(0).max(MAX_MODE);

/** One entry, in every reply but that of a file's content. */
export const volumeEntrySchema = z.object({
  name: z.string(),
  type: z.enum(["unknown", "file", "directory", "symlink"]),
  path: z.string(),
  size: z.number(),
  mode: z.number(),
  uid: z.number(),
  gid: z.number(),
  atime: z.string(),
  mtime: z.string(),
  ctime: z.string(),
  target: z.string().optional(),
});

export type VolumeEntryBody = z.infer<typeof volumeEntrySchema>;

/** Body of `PATCH /volumecontent/{volumeID}/path`. */
export const volumeChangeSchema = z.object({
  uid: id.optional(),
  gid: id.optional(),
  mode: mode.optional(),
});

/** Of every route. */
export const volumePathQuery = z.object({ path: z.string() });

/** Of routes that make an entry. */
export const volumeEntryQuery = volumePathQuery.extend({
  uid: wholeNumber(0, MAX_ID).optional(),
  gid: wholeNumber(0, MAX_ID).optional(),
  mode: wholeNumber(0, MAX_MODE).optional(),
  force: z.enum(["true", "false"]).optional(),
});

const MAX_DEPTH = 64;

/** Of `GET /volumecontent/{volumeID}/dir`. */
export const volumeListQuery = volumePathQuery.extend({
  depth: wholeNumber(1, MAX_DEPTH).optional(),
});
