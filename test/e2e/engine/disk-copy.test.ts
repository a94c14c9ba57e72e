/** A copy of a disk that shares its blocks: another container begins with what the first one had. */

import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container, DiskCopy, Layer } from "../../../src/engine/engine.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { openCloningDisk } from "../../support/faults/cloning-disk.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const HOOK_TIMEOUT_MS = 120_000;

const CHANGE = `set -e
rm /etc/debian_version
rm -r /etc/skel; mkdir /etc/skel; echo fresh > /etc/skel/only
mv /opt /opt-moved
echo mine > /home/user/file; chown user:user /home/user/file; chmod 4755 /home/user/file
echo theirs > /root-file
cp /bin/true /root/capable; setcap cap_net_raw+ep /root/capable 2>/dev/null || true
ln /root-file /root-link; mkfifo /home/user/pipe; ln -s file /home/user/link`;

const LOOK = `ls /etc/debian_version 2>/dev/null
ls -A /etc/skel; ls -d /opt /opt-moved 2>/dev/null
stat -c '%u %g %a %h %n' / /home/user /home/user/file /root-file /home/user/pipe
cat /home/user/link /root-link`;

const EXPECTED = `only
/opt-moved
0 0 755 1 /
1000 1000 755 1 /home/user
1000 1000 4755 1 /home/user/file
0 0 644 2 /root-file
0 0 644 1 /home/user/pipe
mine
theirs
`;

/** What an overlay must be able to do with files, marks and folders of the copied disk. */
const WRITE = `set -e
echo back > /etc/debian_version; rm /etc/debian_version; echo again > /etc/debian_version
rm -r /etc/skel; mkdir /opt; mv /opt-moved /opt/old; rm /root-link
echo more >> /home/user/file; chown 0:0 /home/user/file; mv /home/user /home/other
touch /usr/new; rm /etc/hostname 2>/dev/null || true
cat /etc/debian_version; stat -c '%u %h' /home/other/file /root-file`;

async function copyOf(container: Container, directory: string): Promise<DiskCopy> {
  const copy = await container.copyDisk?.(directory);
  if (copy === undefined) throw new Error("blocks were not shared");
  return copy;
}

describe.each(["crun", "runc"])("a copied disk on %s", (runtime) => {
  let base: readonly Layer[];
  let host: OciHost;

  beforeAll(async () => {
    base = await baseLayers();
    host = await startOciHost(runtime, undefined, openCloningDisk);
  }, HOOK_TIMEOUT_MS);

  afterAll(async () => host[Symbol.asyncDispose]());

  const pathOf = (name: string) => join(host.home, "store/snapshots", name);
  const open = async (disk?: DiskCopy) => {
    const container = await host.create({ layers: base, ...(disk !== undefined && { disk }) });
    await initDaemon(container);
    return container;
  };

  test("is what another container sees and writes to; both go on alone", async () => {
    await using source = await open();
    expect(await runInside(source, CHANGE)).toMatchObject({ exitCode: 0, stderr: "" });
    const disk = await copyOf(source, pathOf("first"));
    await using copy = await open(disk);
    expect((await runInside(copy, LOOK)).stdout).toBe(EXPECTED);
    expect((await runInside(copy, "cat /home/user/file", "user")).stdout).toBe("mine\n");
    expect(await runInside(copy, WRITE)).toEqual({
      exitCode: 0,
      stdout: "again\n0 1\n0 1\n",
      stderr: "",
    });
    expect((await runInside(source, LOOK)).stdout).toBe(EXPECTED);
    // A copy of the copy has the ids of the first disk.
    const second = await copyOf(copy, pathOf("second"));
    expect(second.idBase).toBe(disk.idBase);
    await using third = await open(second);
    const look = "cat /etc/debian_version /home/other/file; ls -d /opt/old; id -u; ls /etc/skel";
    expect((await runInside(third, look)).stdout).toBe("again\nmine\nmore\n/opt/old\n0\n");
    await using again = await open(disk);
    expect((await runInside(again, LOOK)).stdout).toBe(EXPECTED);
  });

  test("lives through a halt, and is a layer for those that want one", async () => {
    await using source = await open();
    await runInside(source, CHANGE);
    await using copy = await open(await copyOf(source, pathOf("halted")));
    await copy.halt();
    await copy.boot(host.specOf(copy.id), AbortSignal.timeout(HOOK_TIMEOUT_MS));
    await initDaemon(copy);
    expect((await runInside(copy, LOOK)).stdout).toBe(EXPECTED);
    expect((await runInside(copy, WRITE)).exitCode).toBe(0);
    const layer = await copy.snapshot(join(host.home, "layers/of-copy"));
    const { uid } = await stat(join(layer.root, "home/other"));
    expect(uid).toBe(1000);
    await using upon = await host.create({ layers: [...base, layer] });
    await initDaemon(upon);
    expect((await runInside(upon, "cat /home/other/file /root-file")).stdout).toBe(
      "mine\nmore\ntheirs\n",
    );
  });

  test("shows one moment of what programs write", async () => {
    await using source = await open();
    const writer =
      "i=0; while :; do i=$((i+1)); for f in a b; do echo $i >/root/n; mv /root/n /root/$f; done; done";
    await runInside(source, `sh -c '${writer}' >/dev/null 2>&1 &`);
    await runInside(source, "dd if=/dev/urandom of=/root/large bs=1M count=64 2>/dev/null");
    const disk = await copyOf(source, pathOf("busy"));
    await using copy = await open(disk);
    const { stdout } = await runInside(copy, "cat /root/a /root/b; stat -c %s /root/large");
    const [a = 0, b = 0, size = 0] = stdout.split("\n").map(Number);
    expect(b).toBeGreaterThan(0);
    expect([0, 1]).toContain(a - b);
    expect(size).toBe(64 * 1024 * 1024);
  });

  test("a copy that its folder refuses is undefined, and nothing is left", async () => {
    await using source = await open();
    await using folder = await makeTempFolder();
    const copy = join(folder.path, "copy");
    expect(await source.copyDisk?.(copy)).toBeUndefined();
    expect(await readdir(folder.path)).toEqual([]);
  });
});
