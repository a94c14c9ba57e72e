/** The daemon's directory as a layer: the top of an image whose containers are Pods. */

import { cp, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { removeTree } from "../common/remove-tree.ts";
import { DAEMON_DIRECTORY } from "../engine/daemon/daemon-command.ts";
import { prepareDaemon } from "../engine/daemon/daemon.ts";
import type { Layer } from "../engine/engine.ts";
import { newDraft } from "../engine/host/drafts.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { daemonSources } from "./engine.ts";
import { findProgramFiles } from "./program-files.ts";

export interface DaemonLayer extends AsyncDisposable {
  readonly layer: Layer;
}

/** A copy that lasts until it is disposed. */
export async function openDaemonLayer(home: string): Promise<DaemonLayer> {
  const source = await prepareDaemon(home, daemonSources(findProgramFiles()));
  const directory = newDraft(join(home, LAYERS, "daemon"));
  const root = join(directory, "root");
  const target = join(root, DAEMON_DIRECTORY);
  await mkdir(dirname(target), { recursive: true, mode: 0o755 });
  await cp(source, target, { recursive: true });
  return { layer: { root }, [Symbol.asyncDispose]: () => removeTree(directory) };
}
