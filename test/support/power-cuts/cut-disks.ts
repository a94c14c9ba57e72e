/** What cuts leave of a recorded disk, one after the other, mounted at the place of its home. */

import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "../../../src/common/schema.ts";
import { startMounter } from "./mounter.ts";
import { openReplay, type Cut } from "./replay.ts";
import { logPathsSchema } from "./write-log.ts";

const run = promisify(execFile);

/** What a check writes is forgotten: no flush of it has to reach the image. */
const OPTIONS = "noauto_da_alloc,commit=300,noinit_itable,barrier=0";

/** A recording that has ended. */
export const recordingSchema = z.object({
  paths: logPathsSchema,
  /** The disk as it was when its log began. */
  past: z.string(),
  /** A folder whose files share blocks. */
  copies: z.string(),
  /** Where the home was. */
  home: z.string(),
});
export type Recording = z.infer<typeof recordingSchema>;

export interface CutDisks extends AsyncDisposable {
  /** Mounts what a cut left; what is written to it is forgotten. Cuts come in the order of their positions. */
  mount(cut: Cut): Promise<void>;
  /** With all that is mounted in it. */
  unmount(): Promise<void>;
}

/** Several may be open at once, in mount namespaces of their own: each has a copy of the disk. */
export async function openCutDisks({ paths, past, copies, home }: Recording): Promise<CutDisks> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(copies, "cuts-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const [own, image] = [join(folder, "past"), join(folder, "cut")];
  await run("cp", ["--sparse=always", past, own]);
  const mounter = stack.use(startMounter());
  const replay = stack.use(openReplay(paths, own));
  let isMounted = false;
  const unmount = async () => {
    if (!isMounted) return;
    isMounted = false;
    await mounter.detach(home);
    rmSync(image);
  };
  stack.defer(unmount);
  const owned = stack.move();
  return {
    async mount(cut) {
      replay.makeCut(cut, image);
      await mounter.attach(image, home, OPTIONS);
      isMounted = true;
    },
    unmount,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Looks at what a cut left while it is mounted. */
export async function withCut<T>(disks: CutDisks, cut: Cut, look: () => Promise<T>): Promise<T> {
  await disks.mount(cut);
  try {
    return await look();
  } finally {
    await disks.unmount();
  }
}
