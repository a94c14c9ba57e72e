/** Many layers and the one that is made of them show the same tree, with all that overlays are made of. */

import { link, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";

const BUILD_TIMEOUT_MS = 600_000;

/** One layer each: removed and replaced, renamed and renamed again, linked, sparse, oddly named. */
const CHANGES = [
  `set -e
rm /etc/debian_version
rm -r /etc/skel
mkdir /etc/skel
echo fresh > /etc/skel/only
mv /opt /opt-moved
mv /usr/share/doc /usr/share/papers
echo one > /becomes-folder
mkdir -p /becomes-file/deep
echo mine > /home/user/file
chown user:user /home/user/file
chmod 4755 /home/user/file`,
  `set -e
rm /becomes-folder
mkdir /becomes-folder
echo two > /becomes-folder/inside
rm -r /becomes-file
echo file > /becomes-file
mv /usr/share/papers /usr/share/paper
rm -r /usr/share/paper/bash
echo linked > /first
ln /first /second
mkfifo /pipe
truncate -s 64M /sparse
printf 'odd' > "$(printf '/new\\nline \\377')"
python3 -c 'import os; os.setxattr("/first", "user.note", b"kept")'`,
  `set -e
rm /becomes-folder/inside
rm -r /etc/skel
mkdir /etc/skel
rmdir /opt-moved
mkdir /opt
chmod 700 /srv
touch -d 2001-01-01 /etc/passwd
ln -s /first /link`,
] as const;

/** Everything but what each container gets of its own, and what folders count by themselves. */
const LOOK = `cd /
find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp \\) -prune -o \\
  \\( -type d -printf '%p|d|%m|%U|%G\\n' \\) -o -printf '%p|%y|%m|%U|%G|%s|%T@|%l\\n' |
  grep -v '^./etc/\\(hostname\\|hosts\\|resolv.conf\\)|' | LC_ALL=C sort | sha256sum
ls -A /etc/skel /opt /becomes-folder; cat /becomes-file /second; stat -c '%h %b' /first /sparse
ls -d /etc/debian_version /opt-moved /usr/share/doc /usr/share/paper/bash 2>&1 | wc -l
ls /usr/share/paper | wc -l
python3 -c 'import os; print(os.getxattr("/first", "user.note"))'`;

let host: OciHost;

beforeAll(async () => {
  host = await startOciHost("auto");
}, BUILD_TIMEOUT_MS);

afterAll(() => host[Symbol.asyncDispose]());

function placeOf(name: string) {
  return { directory: join(host.home, "layers", name), signal: AbortSignal.any([]) };
}

test("one layer of three shows what the three show, and holds nothing of the template", async () => {
  const base = await baseLayers();
  const layers = [...base];
  for (const [index, change] of CHANGES.entries()) {
    await using container = await host.create({ layers });
    await initDaemon(container);
    expect(await runInside(container, change)).toMatchObject({ exitCode: 0, stderr: "" });
    layers.push(await container.snapshot(join(host.home, "layers", `step${index}`)));
  }
  const one = await host.engine.squash(layers, base.length, placeOf("one"));
  const looks: string[] = [];
  for (const stack of [layers, [...base, one]]) {
    await using container = await host.create({ layers: stack });
    await initDaemon(container);
    const look = await runInside(container, LOOK);
    expect(look).toMatchObject({ exitCode: 0, stderr: "" });
    looks.push(look.stdout);
  }
  expect(looks[1]).toBe(looks[0]);
  expect(looks[1]).toContain("b'kept'");
  expect(await readdir(join(host.home, "layers", "one"))).toEqual(["root"]);
  const names = await readdir(one.root);
  expect(names).toContain("becomes-file");
  expect(names).not.toContain("bin");
  // What changed lies in these; every other folder of the template is not in the layer.
  expect(await readdir(join(one.root, "usr"))).toEqual(["share"]);
});

const FILES = 200;

test("names that the host gives to files of a template meanwhile change no layer", async () => {
  const root = (name: string) => join(host.home, "layers", name, "root");
  for (const name of ["below", "above"]) {
    await mkdir(root(name), { recursive: true });
    await writeFile(join(root(name), name), name);
  }
  const names = Array.from({ length: FILES }, (_name, index) => `file-${index}`);
  for (const name of names) await writeFile(join(root("below"), name), name);
  const layers = [{ root: root("below") }, { root: root("above") }];
  let rounds = 0;
  const squashing = new AbortController();
  const linkAll = async (): Promise<void> => {
    for (; !squashing.signal.aborted; rounds += 1) {
      for (const name of names) {
        const other = join(host.home, name);
        await link(join(root("below"), name), other);
        await rm(other);
      }
    }
  };
  const linking = linkAll();
  const one = await host.engine.squash(layers, 1, placeOf("linked"));
  squashing.abort();
  await linking;
  expect(rounds).toBeGreaterThan(0);
  expect(await readdir(one.root)).toEqual(["above"]);
  expect(await readFile(join(one.root, "above"), "utf8")).toBe("above");
});

test("a folder that a layer changed is in the layer, also where only its attributes differ", async () => {
  const at = new Date("2001-01-01");
  const root = (name: string) => join(host.home, "layers", name, "root");
  const touch = async (name: string): Promise<number> => {
    const folder = join(root(name), "folder");
    await mkdir(folder, { recursive: true });
    for (const path of [folder, root(name)]) await utimes(path, at, at);
    return (await stat(folder)).ctimeMs;
  };
  const changedAtMs = await touch("old");
  // The kernel tells moments apart by its ticks.
  await expect.poll(async () => touch("new"), { interval: 10 }).toBeGreaterThan(changedAtMs);
  const layers = [{ root: root("old") }, { root: root("new") }];
  const one = await host.engine.squash(layers, 1, placeOf("folders"));
  expect(await readdir(one.root)).toEqual(["folder"]);
});
