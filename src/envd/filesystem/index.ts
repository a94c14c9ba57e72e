/** The operations of the filesystem service, by their names on the wire. */

import type { ServiceImpl } from "@connectrpc/connect";
import type { Filesystem } from "../../gen/filesystem/filesystem_pb.ts";
import { createWatcher } from "./create-watcher.ts";
import { getWatcherEvents } from "./get-watcher-events.ts";
import { listDir } from "./list-dir.ts";
import { makeDir } from "./make-dir.ts";
import { move } from "./move.ts";
import { removeWatcher } from "./remove-watcher.ts";
import { remove } from "./remove.ts";
import { stat } from "./stat.ts";
import { watchDir } from "./watch-dir.ts";

export const filesystemOperations = {
  createWatcher,
  getWatcherEvents,
  listDir,
  makeDir,
  move,
  remove,
  removeWatcher,
  stat,
  watchDir,
} satisfies ServiceImpl<typeof Filesystem>;
