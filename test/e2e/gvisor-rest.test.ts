/**
 * Copies of sandboxes at the level gvisor rest: a connection that closed shortly before the memory was
 * saved once kept the daemon of each copy busy for as long as the copy lived.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { readMounts } from "../../src/engine/host/mount-table.ts";
import { locateCgroups } from "../../src/engine/oci/cgroups.ts";
import { gvisorRuntime } from "../support/runtimes.ts";
import { startServe } from "../support/serve.ts";

const runtime = gvisorRuntime();
/** Before, not each image made such copies: several are tried. */
const IMAGES = 10;
/** One quiet look is enough: garbage is collected once in a while, and the kernel inside wakes by itself. */
const [MAX_LOOKS, LOOK_MS] = [12, 300];
/** Of the processor; one that rests takes 3 to 15 ms, and a busy one all that it is given each time. */
const MAX_BUSY_MS = 20;

/** The processor time of a sandbox, in milliseconds. */
async function usedMs({ sandboxId }: Sandbox): Promise<number> {
  const { unified = "" } = locateCgroups(await readMounts());
  const text = await readFile(join(unified, "sandbox-mcp", sandboxId, "cpu.stat"), "utf8");
  return Number(/^usage_usec (\d+)$/m.exec(text)?.[1]) / 1_000;
}

async function quietestMs(sandbox: Sandbox): Promise<number> {
  let quietest = Number.POSITIVE_INFINITY;
  for (let look = 0; look < MAX_LOOKS && !(quietest < MAX_BUSY_MS); look += 1) {
    const before = await usedMs(sandbox);
    await delay(LOOK_MS);
    quietest = Math.min(quietest, (await usedMs(sandbox)) - before);
  }
  return quietest;
}

test.skipIf(runtime === undefined)(
  "the daemon of a copy rests, whichever connections closed before the copy",
  { timeout: 180_000 },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    await using serve = await startServe(level);
    const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
    const quiet: number[] = [];
    for (let image = 0; image < IMAGES; image += 1) {
      const source = await Sandbox.create("base", options);
      // Several connections at once leave other traces than one.
      const commands = Array.from({ length: image % 2 === 0 ? 1 : 20 }, async () =>
        source.commands.run("true"),
      );
      await Promise.all(commands);
      const { snapshotId } = await source.createSnapshot();
      await source.kill();
      const copy = await Sandbox.create(snapshotId, options);
      quiet.push(await quietestMs(copy));
      await copy.kill();
    }
    expect(quiet.filter((ms) => !(ms < MAX_BUSY_MS))).toEqual([]);
  },
);
