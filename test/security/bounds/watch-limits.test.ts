/** What the kernel's own limits, and file systems that it does not watch, mean for a watch. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { faultOf } from "../../support/daemon/fault-of.ts";
import { mountFuse, whyNoFuse } from "../../support/faults/fuse.ts";

const EXHAUSTED = "the system's limit of inotify watches is reached";
/** A user who may have four watches of the kernel. */
const FOUR_WATCHES = `echo 4 > /proc/sys/user/max_inotify_watches && exec "$@"`;
const SCARCE: [string, ...string[]] = [
  "unshare",
  "--user",
  "--map-root-user",
  "/bin/sh",
  "-c",
  FOUR_WATCHES,
  "sh",
];

test("when the kernel gives no more watches, a new one is refused and an old one goes on", async () => {
  await using daemon = await startTestDaemon({ within: SCARCE });
  const small = join(daemon.folder, "small");
  const large = join(daemon.folder, "large");
  await mkdir(join(small, "inner"), { recursive: true });
  await mkdir(join(large, "1/2/3/4"), { recursive: true });
  const { watcherId } = await daemon.files.createWatcher({ path: small, recursive: true });
  const refused = [
    "ResourceExhausted",
    `error adding path ${large} to watcher: ${EXHAUSTED}`,
  ] as const;
  for (let count = 0; count < 10; count += 1) {
    const more = daemon.files.createWatcher({ path: large, recursive: true });
    expect(await faultOf(more)).toEqual(refused);
  }
  await mkdir(join(small, "inner/new"));
  await expect
    .poll(async () => (await daemon.files.getWatcherEvents({ watcherId })).events[0]?.name)
    .toBe("inner/new");
});

test("a recursive watch that cannot follow any more ends with that as its error", async () => {
  await using daemon = await startTestDaemon({ within: SCARCE });
  const path = join(daemon.folder, "w");
  await mkdir(path);
  const { watcherId } = await daemon.files.createWatcher({ path, recursive: true });
  await mkdir(join(path, "1/2/3/4/5"), { recursive: true });
  await expect
    .poll(async () => faultOf(daemon.files.getWatcherEvents({ watcherId })))
    .toEqual(["Internal", `watcher error: ${EXHAUSTED}`]);
  await daemon.files.removeWatcher({ watcherId });
  await daemon.files.createWatcher({ path });
});

test.skipIf(whyNoFuse() !== "")(
  `a file system that a program serves is watched on request alone ${whyNoFuse()}`,
  async () => {
    await using daemon = await startTestDaemon();
    await mkdir(join(daemon.folder, "served"));
    await using served = await mountFuse(join(daemon.folder, "served"));
    const { path } = served;
    const refused = ["InvalidArgument", `cannot watch path on network filesystem: ${path}`];
    expect(await faultOf(daemon.files.createWatcher({ path }))).toEqual(refused);
    const stream = daemon.files.watchDir({ path })[Symbol.asyncIterator]();
    expect(await faultOf(stream.next())).toEqual(refused);
    const allowed = { path, allowNetworkMounts: true };
    const { watcherId } = await daemon.files.createWatcher(allowed);
    expect((await daemon.files.getWatcherEvents({ watcherId })).events).toEqual([]);
    await daemon.files.removeWatcher({ watcherId });
  },
);
