/** A watch on a cgroup where its user has none left, as beside many containers and editors. */

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const SOURCE = resolve(import.meta.dirname, "../../../src/engine/oci/watch-group.ts");

/** In a user namespace of its own, in which the kernel counts on its own. */
const LIMITED = 'echo "$1" > /proc/sys/user/max_inotify_instances && shift && exec "$@"';

const CODE = `
  import { watchGroup } from ${JSON.stringify(SOURCE)};
  const watcher = watchGroup("/proc/self/status", () => undefined);
  process.stdout.write(watcher === undefined ? "none" : "watches");
  watcher?.close();`;

test.for([
  { instances: "0", found: "none" },
  { instances: "10", found: "watches" },
])("with $instances instances of inotify: $found", async ({ instances, found }) => {
  const node = [process.execPath, "--input-type=module", "--eval", CODE];
  const words = ["--user", "--map-root-user", "sh", "-c", LIMITED, "sh", instances, ...node];
  expect((await promisify(execFile)("unshare", words)).stdout).toBe(found);
});
