/**
 * The place of a home, by which a copy beside its original is told from a home that was moved: the
 * containers of the original must not be taken, or ended, by a service of the copy.
 */

import { randomUUID } from "node:crypto";
import { realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { isCode } from "../../common/errors.ts";
import { readIfThere, writeDurably } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { withLock } from "../../engine/host/lock.ts";

const PLACE_NAME = "place.json";

const placeSchema = z.object({
  id: z.uuid(),
  /** Where the home was when it was opened last, links followed. */
  path: z.string(),
});

const ABSENT: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "EACCES", "EPERM"]);

type Place = z.infer<typeof placeSchema>;

/**
 * Writes where the home is. A copy whose original is still at its place forgets all sandboxes first;
 * templates, snapshots and volumes stay. Returns what the user has to know of that, if anything.
 */
export async function settlePlace(home: string): Promise<string | undefined> {
  const path = await realpath(home);
  const own = await readPlace(path);
  if (own?.path === path) return undefined;
  if (own === undefined) {
    await notePlace(path, { id: randomUUID(), path });
  } else if (await isOriginalThere(own, path)) {
    const count = await withLock({ home, name: "instance" }, async () => disownCopy(path));
    return count === 0 ? undefined : describeCopy(own.path, count);
  } else {
    await notePlace(path, { ...own, path });
  }
  return undefined;
}

function describeCopy(original: string, count: number): string {
  const sandboxes = count === 1 ? "its sandbox stays" : `its ${count} sandboxes stay`;
  return (
    `this home is a copy of ${quoteName(original)}, and ${sandboxes} with that one: ` +
    "to take sandboxes along, move a home, with no service running, instead of copying it"
  );
}

async function readPlace(home: string): Promise<Place | undefined> {
  const text = await readIfThere(join(home, PLACE_NAME));
  return placeSchema.safeParse(tryParseJson(text ?? "")).data;
}

/** Whether another folder is where this home was, with the same mark. */
async function isOriginalThere(own: Place, path: string): Promise<boolean> {
  try {
    if ((await readPlace(own.path))?.id !== own.id) return false;
    const [original, copy] = await Promise.all([stat(own.path), stat(path)]);
    return original.dev !== copy.dev || original.ino !== copy.ino;
  } catch (error) {
    // Containers of a home that this user may not read are not this user's to end.
    if (isCode(error, ...ABSENT)) return false;
    throw error;
  }
}

/**
 * One process at a time, since all have one draft: in the place of one that is being written to, an empty
 * mark would be seen, and the home be taken for a foreign folder. A disk that is too full must not keep
 * a service from its start: the next one writes it.
 */
async function notePlace(path: string, place: Place): Promise<void> {
  const write = async () => {
    if ((await readPlace(path))?.path !== path) await writePlace(path, place);
  };
  await withLock({ home: path, name: "instance" }, write).catch(() => undefined);
}

async function writePlace(path: string, place: Place): Promise<void> {
  await writeDurably(join(path, PLACE_NAME), JSON.stringify(place));
}

/**
 * First what leads to containers, which have the names of those of the original; then the mark. Returns how
 * many sandboxes are forgotten that the original keeps.
 */
async function disownCopy(path: string): Promise<number> {
  // Another process may have done so meanwhile.
  if ((await readPlace(path))?.path === path) return 0;
  // Rare, and most of the service: a stdio server answers its host before it loads that.
  const { forgetInstance, ownersOf } = await import("../../sandboxes/reclaim/instance-rows.ts");
  const { openStore } = await import("../../store/sqlite.ts");
  using store = openStore({ path: join(path, "state.db") });
  const rows = [...ownersOf(store)].map((owner) => store.sandboxes.ofOwner(owner));
  for (const owner of ownersOf(store)) forgetInstance(store, owner);
  await removeTree(join(path, "instances"));
  await writePlace(path, { id: randomUUID(), path });
  return rows.flat().filter(({ state }) => state === "running" || state === "paused").length;
}
