/** A snapshot of a container whose programs write all the time is of one moment. */

import { lstat, open, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";

const TIMEOUT_MS = 120_000;
const SNAPSHOTS = 4;
const BIG_BYTES = 24 * 1024 * 1024;

/**
 * Counts, and writes each number in one order to: both ends of a long mapped file, a file that is
 * written in place, a file with two names, one that is renamed into place, a link, and the name of
 * a folder with a file in it. Names come and go meanwhile.
 */
const WRITER = `import mmap, os, struct
os.makedirs("/root/busy/churn")
os.chdir("/root/busy")
size = ${BIG_BYTES}
with open("big", "wb") as big:
    big.write(b"x" * size)
big = os.open("big", os.O_RDWR)
view = mmap.mmap(big, size)
plain = os.open("plain", os.O_RDWR | os.O_CREAT)
twin = os.open("twin", os.O_RDWR | os.O_CREAT)
os.link("twin", "other")
os.mkdir("folder-0")
open("folder-0/inner", "w").close()
n = 0
while True:
    n += 1
    number = struct.pack("<q", n)
    view[0:8] = number
    os.pwrite(plain, number, 0)
    os.pwrite(twin, number, 0)
    with open("next", "wb") as file:
        file.write(number)
    os.rename("next", "renamed")
    os.symlink(str(n), "next-link")
    os.rename("next-link", "link")
    os.rename("folder-%d" % (n - 1), "folder-%d" % n)
    with open("churn/%d" % n, "w") as file:
        file.write("c")
    if n > 20:
        os.remove("churn/%d" % (n - 20))
    view[size - 8:size] = number
    if n == 50:
        open("/root/started", "w").close()
`;

async function numberAt(path: string, offset: number): Promise<number> {
  const file = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(8), 0, 8, offset);
    return Number(buffer.readBigInt64LE());
  } finally {
    await file.close();
  }
}

test(
  "a snapshot of what is being written is of one moment",
  async () => {
    await using host = await startOciHost("auto");
    await using source = await host.create({ layers: await baseLayers() });
    await initDaemon(source);
    const start = `printf %s '${WRITER}' > /root/writer.py; setsid python3 /root/writer.py > /root/fault 2>&1 &
while [ ! -e /root/started ]; do sleep 0.02; done`;
    const started = await runInside(source, start);
    expect(started).toMatchObject({ exitCode: 0, stderr: "" });
    const seen: number[] = [];
    for (let round = 0; round < SNAPSHOTS; round += 1) {
      const layer = await source.snapshot(join(host.home, "layers", `busy-${round}`));
      const busy = join(layer.root, "root", "busy");
      const names = await readdir(busy);
      const folders = names.filter((name) => name.startsWith("folder-"));
      const order = [
        await numberAt(join(busy, "big"), 0),
        await numberAt(join(busy, "plain"), 0),
        await numberAt(join(busy, "twin"), 0),
        await numberAt(join(busy, "renamed"), 0),
        Number(await readlink(join(busy, "link"))),
        Number(folders[0]?.slice("folder-".length)),
        await numberAt(join(busy, "big"), BIG_BYTES - 8),
      ];
      const [first = 0] = order;
      const last = order.at(-1) ?? 0;
      // Each is the newest number or the one before, and the newer come first.
      expect(order).toEqual(order.toSorted((left, right) => right - left));
      expect(first - last).toBeLessThanOrEqual(1);
      expect(first).toBeGreaterThan(seen.at(-1) ?? 49);
      seen.push(first);
      expect(folders).toHaveLength(1);
      expect(await readdir(join(busy, folders[0] ?? ""))).toEqual(["inner"]);
      const [twin, other] = await Promise.all(
        ["twin", "other"].map(async (name) => (await lstat(join(busy, name))).ino),
      );
      expect(twin).toBe(other);
      const churn = (await readdir(join(busy, "churn"))).map(Number);
      expect(Math.max(...churn) - Math.min(...churn)).toBeLessThanOrEqual(20);
      expect(churn.length).toBeGreaterThanOrEqual(20);
      expect((await lstat(join(busy, "big"))).size).toBe(BIG_BYTES);
    }
    expect(
      await readFile(join(host.home, "layers", "busy-0", "root", "root", "fault"), "utf8"),
    ).toBe("");
  },
  TIMEOUT_MS,
);
