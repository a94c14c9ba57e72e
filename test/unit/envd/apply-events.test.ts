/** What moves of directories tell a reader who moves what it knows below them. */

import { expect, test } from "vitest";
import { EventApplier } from "../../../src/envd/watch/apply-events.ts";
import { applyListing } from "../../../src/envd/watch/apply-listing.ts";
import { Directory } from "../../../src/envd/watch/directory.ts";
import { EventMask, type KernelEvent } from "../../../src/envd/watch/kernel-event.ts";
import { Tree } from "../../../src/envd/watch/tree.ts";
import { createWatchBudget } from "../../../src/envd/watch/watch-budget.ts";
import { EventType } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { Playback } from "../../support/daemon/playback.ts";

const ROOT = 1;
const NAMES = new Map<EventType, string>(
  Object.entries(EventType).map(([name, type]) => [type, name]),
);

/** An event of the root about a directory in it. */
function eventOf(name: string, mask: number): KernelEvent {
  return { wd: ROOT, name, cookie: 7, mask: mask | EventMask.isDirectory };
}

/** A tree that was listed, and a reader who was told everything. */
function openWorld() {
  const tree = new Tree({
    isRecursive: true,
    budget: createWatchBudget(),
    release: () => undefined,
  });
  const applier = new EventApplier(tree);
  const playback = new Playback();
  const told: string[] = [];
  const tell = () => {
    for (const { name, type } of tree.takeTold()) {
      told.push(`${NAMES.get(type)} ${name}`);
      playback.add({ name, type });
    }
  };
  let lastWd = ROOT;
  const list = (directory: Directory, ...names: readonly string[]) => {
    const wd = directory === tree.root ? ROOT : (lastWd += 1);
    const entries = names.map((name) => ({
      name: name.replace("/", ""),
      isDirectory: name.endsWith("/"),
      hasContent: false,
      changedAtS: 0,
    }));
    applyListing(tree, directory, { report: { errno: 0, wd, entries }, lostSinceS: undefined });
    directory.unconfirmed.clear();
    tell();
  };
  const find = (name: string) => {
    const found = tree.root.children.get(name);
    if (!(found instanceof Directory)) throw new Error(`no directory ${name}`);
    return found;
  };
  const move = (from: string, to?: string) => {
    applier.move(
      eventOf(from, EventMask.movedFrom),
      to === undefined ? undefined : eventOf(to, EventMask.movedTo),
    );
    tell();
  };
  const come = (name: string) => {
    applier.apply(eventOf(name, EventMask.create));
    tell();
  };
  list(tree.root);
  come("a");
  list(find("a"), "old", "kept");
  told.length = 0;
  return { tree, playback, told, list, find, move, come };
}

test("a directory whose watch was lost moves with what is known below it", () => {
  const world = openWorld();
  world.tree.loseWatches();
  world.list(world.tree.root, "a/");
  world.move("a", "b");
  world.list(world.find("b"), "kept", "new");
  expect(world.told).toEqual(["RENAME a", "CREATE b", "REMOVE b/old", "CREATE b/new"]);
  expect([...world.playback.names].toSorted()).toEqual(["b", "b/kept", "b/new"]);
});

test("what was below a directory that left the tree is not taken for what comes next", () => {
  const world = openWorld();
  world.move("a");
  world.come("c");
  expect(world.told).toEqual(["RENAME a", "REMOVE a", "CREATE c"]);
  expect([...world.playback.names]).toEqual(["c"]);
});

test("nor where a listing has told the new name before", () => {
  const world = openWorld();
  world.tree.enter(world.tree.root, "b", new Directory(world.tree.root, "b", true));
  world.tree.root.unconfirmed.add("b");
  world.move("a", "b");
  world.come("c");
  expect(world.told).toEqual(["RENAME a", "REMOVE a", "CREATE c"]);
  expect([...world.playback.names]).toEqual(["c"]);
});
