/**
 * What the daemon's folder consisted of when it was made, so that a start can tell whether it still
 * does without reading a hundred megabytes.
 */

import { lstatSync, readdirSync, statSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { sha256File } from "../../common/file-hash.ts";
import { readIfThere, writeWhole } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { newDraft } from "../host/drafts.ts";

const MANIFEST = "manifest.json";

const manifestSchema = z.record(
  z.string(),
  z.object({
    sha256: z.string(),
    inode: z.string(),
    sizeBytes: z.string(),
    changedNs: z.string(),
    mode: z.string(),
  }),
);

/** Of the folder itself and of those in it: every user of a sandbox finds the files. */
const FOLDER_MODE = "755";

type Manifest = z.infer<typeof manifestSchema>;

/** Writes down what there is: the last file of a folder. */
export async function writeManifest(directory: string): Promise<void> {
  await writeFile(join(directory, MANIFEST), JSON.stringify(await describeFolder(directory)));
}

/** Every file but the manifest. */
export function listFiles(directory: string): string[] {
  const entries = readdirSync(directory, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
    .filter((name) => name !== MANIFEST);
}

async function describeFolder(directory: string): Promise<Manifest> {
  const manifest: Manifest = {};
  for (const name of listFiles(directory)) {
    const path = join(directory, name);
    manifest[name] = { sha256: await sha256File(path), ...stampOf(path) };
  }
  return manifest;
}

function stampOf(path: string): Omit<Manifest[string], "sha256"> {
  const entry = lstatSync(path, { bigint: true });
  return {
    inode: String(entry.ino),
    sizeBytes: String(entry.size),
    changedNs: String(entry.ctimeNs),
    mode: modeOf(entry),
  };
}

/** Who may use a file. */
function modeOf({ mode }: { readonly mode: bigint }): string {
  return (mode & 0o7777n).toString(8);
}

/**
 * Whether every file is the one that was hashed. Its change time moves with any write and no
 * program can set it; only where it differs, as after a move to another disk, is it hashed again, once. A
 * copy or a backup without modes has the bytes: programs could not be started, or the daemon be traced.
 * It is asked at each start, and looks at the files at once: promises would take ten times as long.
 */
export async function isIntact(directory: string): Promise<boolean> {
  const manifest = await readManifest(directory);
  if (manifest === undefined) return false;
  const names = listFiles(directory);
  if (names.length !== Object.keys(manifest).length) return false;
  const folders = new Set(names.map((name) => dirname(join(directory, name))));
  for (const folder of folders) {
    if (modeOf(statSync(folder, { bigint: true })) !== FOLDER_MODE) return false;
  }
  const found: Manifest = {};
  let isAsKnown = true;
  for (const name of names) {
    const known = manifest[name];
    const path = join(directory, name);
    const stamp = stampOf(path);
    if (known === undefined || stamp.mode !== known.mode) return false;
    const isUntouched =
      stamp.inode === known.inode &&
      stamp.sizeBytes === known.sizeBytes &&
      stamp.changedNs === known.changedNs;
    if (!isUntouched && (await sha256File(path)) !== known.sha256) return false;
    isAsKnown &&= isUntouched;
    found[name] = { sha256: known.sha256, ...stamp };
  }
  if (!isAsKnown) await rewriteManifest(directory, found);
  return true;
}

/**
 * The draft lies beside the folder: in it, it would be a file that others do not know. Where it cannot
 * be written, the next start hashes again.
 */
async function rewriteManifest(directory: string, manifest: Manifest): Promise<void> {
  const draft = newDraft(directory);
  try {
    await writeWhole(join(directory, MANIFEST), JSON.stringify(manifest), draft);
  } catch {
    await rm(draft, { force: true }).catch(() => undefined);
  }
}

/** Undefined also for half of one, as a power cut may leave. */
async function readManifest(directory: string): Promise<Manifest | undefined> {
  const text = await readIfThere(join(directory, MANIFEST));
  return manifestSchema.safeParse(tryParseJson(text ?? "")).data;
}
