/** A program that keeps on moving a directory: a watch of the tree around it is there all the same. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";

/** Far more than it takes, and less than the events of the moves would take it. */
const LIMIT_MS = 20_000;
/** Says that it has begun, and moves the directory until it is ended. */
const MOVER = `$| = 1; print 1; while (1) {
  for (["a", "x"], ["x", "a"]) { rename $_->[0], $_->[1]; select undef, undef, undef, 0.005 }
}`;

test("a directory that never stays long", { timeout: LIMIT_MS }, async () => {
  await using daemon = await startTestDaemon();
  const path = join(daemon.folder, "w");
  // Each level is a chance for the directory to move meanwhile.
  await mkdir(join(path, "a", "b/".repeat(20)), { recursive: true });
  const mover = spawn("perl", ["-e", MOVER], { cwd: path, stdio: ["ignore", "pipe", "inherit"] });
  await using stack = new AsyncDisposableStack();
  stack.defer(async () => {
    mover.kill("SIGKILL");
    await once(mover, "exit");
  });
  await once(mover.stdout, "data");
  const { watcherId } = await daemon.files.createWatcher({ path, recursive: true });
  expect(watcherId).toMatch(/^w/);
});
