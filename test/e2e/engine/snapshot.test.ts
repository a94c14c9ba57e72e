/** A snapshot carries what was written, what was removed and who owns it. */

import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Layer } from "../../../src/engine/engine.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";

const BUILD_TIMEOUT_MS = 600_000;

let base: readonly Layer[];

beforeAll(async () => {
  base = await baseLayers();
}, BUILD_TIMEOUT_MS);

const CHANGE = `set -e
rm /etc/debian_version
rm -r /etc/skel
mkdir /etc/skel
echo fresh > /etc/skel/only
mv /opt /opt-moved
echo mine > /home/user/file
chown user:user /home/user/file
chmod 4755 /home/user/file
echo theirs > /root-file`;

const LOOK = `ls /etc/debian_version 2>/dev/null
ls -A /etc/skel
ls -d /opt /opt-moved 2>/dev/null
stat -c '%u %g %a %n' / /home/user /home/user/file /root-file
cat /home/user/file /root-file`;

const EXPECTED = `only
/opt-moved
0 0 755 /
1000 1000 755 /home/user
1000 1000 4755 /home/user/file
0 0 644 /root-file
mine
theirs
`;

describe.each(["crun", "runc"])("a snapshot on %s", (runtime) => {
  let host: OciHost;

  beforeAll(async () => {
    host = await startOciHost(runtime);
  });

  afterAll(async () => host[Symbol.asyncDispose]());

  test("another container on it sees the same files, removals and owners", async () => {
    const target = join(host.home, "layers", "first");
    await using source = await host.create({ layers: base });
    await initDaemon(source);
    expect(await runInside(source, CHANGE)).toMatchObject({ exitCode: 0, stderr: "" });
    const layer = await source.snapshot(target);
    await using copy = await host.create({ layers: [...base, layer] });
    await initDaemon(copy);
    expect((await runInside(copy, LOOK)).stdout).toBe(EXPECTED);
    // And once more on top: the marks of an overlay survive being a lower layer.
    expect(await runInside(copy, "echo two > /second; rm /root-file")).toMatchObject({
      exitCode: 0,
    });
    const second = await copy.snapshot(join(host.home, "layers", "second"));
    await using third = await host.create({ layers: [...base, layer, second] });
    await initDaemon(third);
    const last = await runInside(third, "ls /root-file 2>/dev/null; cat /second; ls -A /etc/skel");
    expect(last.stdout).toBe("two\nonly\n");
  });

  test("the layer on the host has plain ids", async () => {
    await using source = await host.create({ layers: base });
    await initDaemon(source);
    await runInside(source, "echo > /home/user/x; chown user:user /home/user/x; echo > /y");
    const layer = await source.snapshot(join(host.home, "layers", "plain"));
    const owners = await Promise.all(
      ["", "home/user/x", "y"].map(async (path) => (await lstat(join(layer.root, path))).uid),
    );
    expect(owners).toEqual([0, 1000, 0]);
  });

  test("a running container goes on, a paused one stays paused", async () => {
    await using source = await host.create({ layers: base });
    await initDaemon(source);
    await source.snapshot(join(host.home, "layers", "running"));
    expect((await runInside(source, "echo on")).stdout).toBe("on\n");
    await source.pause();
    await source.snapshot(join(host.home, "layers", "paused"));
    const answer = runInside(source, "echo late");
    const winner = await Promise.race([answer, after(300)]);
    expect(winner).toBeUndefined();
    await source.resume();
    expect((await answer).stdout).toBe("late\n");
  });

  test("a name that is taken is refused and nothing is changed", async () => {
    await using source = await host.create();
    const target = join(host.home, "layers", "taken");
    await source.snapshot(target);
    await expect(source.snapshot(target)).rejects.toMatchObject({ code: "already_exists" });
  });
});

async function after(ms: number): Promise<undefined> {
  await delay(ms);
  return undefined;
}
