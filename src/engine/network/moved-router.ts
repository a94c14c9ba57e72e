/**
 * The router of a home that was moved: its claim names the folder of its containers at the old place. Their
 * links are found by it, and a kernel of its own never sees another link than the one it has.
 */

import { listFolder } from "../../common/files.ts";
import { slotsIn } from "../host/id-ranges.ts";
import { listLinks } from "./namespace.ts";
import { isUsable, passRouter, routersWithoutFolder } from "./router-record.ts";
import { linkName } from "./router-rules.ts";

/** Passes to a folder the routers that had its containers and whose own folder is gone. */
export async function takeMovedRouters(owner: string): Promise<void> {
  const lost = await routersWithoutFolder();
  if (lost.length === 0) return;
  const names = new Set(await listFolder(owner));
  // The ranges of containers that were found again are held in their new folder.
  const found = [...(await slotsIn(owner)).keys()];
  for (const { owner: old, router } of lost) {
    if (!(await isUsable(router))) continue;
    const moved = [...(await slotsIn(old))].flatMap(([slot, name]) =>
      names.has(name) ? slot : [],
    );
    const links = new Set(await listLinks(router.path));
    // Of one that has ended nothing but its range is left.
    if (moved.length > 0 || found.some((slot) => links.has(linkName(slot)))) {
      await passRouter(router.slot, owner);
    }
  }
}
