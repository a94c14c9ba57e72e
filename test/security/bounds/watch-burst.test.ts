/** A watch under a storm: whoever plays its events back ends with the tree that is there. */

import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { EventType, type FilesystemEvent } from "../../../src/gen/filesystem/filesystem_pb.ts";
import { runStorm } from "../../support/burst.ts";
import { startTestDaemon } from "../../support/envd.ts";

const CHANGES = 10_000;

/** The names that a reader of events believes in. */
class Playback {
  readonly names = new Set<string>();
  /** What was below a folder that was renamed: the next event says where it is now. */
  #moved: readonly string[] = [];

  add({ name, type }: FilesystemEvent): void {
    const moved = this.#moved;
    this.#moved = [];
    if (type === EventType.REMOVE || type === EventType.RENAME) {
      const below = [...this.names].filter((other) => other.startsWith(`${name}/`));
      for (const gone of [name, ...below]) this.names.delete(gone);
      if (type === EventType.RENAME) this.#moved = below.map((other) => other.slice(name.length));
    } else this.names.add(name);
    if (type === EventType.CREATE) for (const rest of moved) this.names.add(name + rest);
  }
}

test("ten thousand quick changes in nested new folders lose no final state", async () => {
  const seed = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "w");
  await mkdir(path);
  const { watcherId } = await daemon.files.createWatcher({ path, recursive: true });
  await runStorm(path, seed, CHANGES);
  const there = (await readdir(path, { recursive: true })).toSorted();
  const playback = new Playback();
  const believed = async () => {
    const { events } = await daemon.files.getWatcherEvents({ watcherId });
    for (const event of events) playback.add(event);
    return [...playback.names].toSorted();
  };
  await expect.poll(believed, { message: `FUZZ_SEED=${seed}`, timeout: 30_000 }).toEqual(there);
  expect(there.length).toBeGreaterThan(1_000);
});
