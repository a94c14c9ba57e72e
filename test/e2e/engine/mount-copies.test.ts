/**
 * A program that makes a mount namespace keeps copies of the disks that are mounted at that moment. No
 * disk is mounted a second time beside its copy, which would be two file systems in one image.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, writeFile, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Container, Layer } from "../../../src/engine/engine.ts";
import { readMounts } from "../../../src/engine/host/mount-table.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import {
  createVolumeDiskMaker,
  mountVolumeDisks,
  unmountVolumeDisks,
  volumeContent,
  volumeDraft,
} from "../../../src/engine/storage/volume-disk.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { takeCensus } from "../../support/census.ts";
import { endChild } from "../../support/end-child.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { copyMounts } from "../../support/faults/mount-copies.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIMIT_MS = 120_000;

let host: OciHost;
let layers: readonly Layer[];

beforeAll(async () => {
  layers = await baseLayers();
  host = await startOciHost("auto");
}, LIMIT_MS);

afterAll(() => host[Symbol.asyncDispose]());

/** The loop devices of the image of a container. */
async function devicesOf({ id }: Container): Promise<readonly string[]> {
  const image = join(host.directoryOf(id), "disk.img");
  const found: string[] = [];
  for (const name of await readdir("/sys/block")) {
    const path = `/sys/block/${name}/loop/backing_file`;
    const backing = await readFile(path, "utf8").catch(() => "");
    // A file that was removed is named so.
    if (backing.startsWith(image)) found.push(name);
  }
  return found;
}

async function createWritten(): Promise<Container> {
  const container = await host.create({ layers });
  await initDaemon(container);
  await runInside(container, "echo kept > /root/kept; head -c 1000000 /dev/urandom > /root/more");
  return container;
}

async function bootAgain(container: Container): Promise<string> {
  await container.boot(host.specOf(container.id), AbortSignal.timeout(LIMIT_MS));
  await initDaemon(container);
  return (await runInside(container, "cat /root/kept; echo more >> /root/kept")).stdout;
}

describe("with a copy of the mounts elsewhere", () => {
  test("a halted container has no device, and boots on one", { timeout: LIMIT_MS }, async () => {
    await using container = await createWritten();
    await using others = new AsyncDisposableStack();
    others.use(await copyMounts());
    await container.halt();
    expect(await devicesOf(container)).toEqual([]);
    expect(await bootAgain(container)).toBe("kept\n");
    expect(await devicesOf(container)).toHaveLength(1);
    await container.halt();
    expect(await bootAgain(container)).toBe("kept\nmore\n");
  });

  test("one that was unmounted by a process that then died boots on one device", async () => {
    await using container = await createWritten();
    await using others = new AsyncDisposableStack();
    others.use(await copyMounts());
    await runProgram(["umount", "--lazy", join(host.directoryOf(container.id), "disk")]);
    await container.halt();
    expect(await bootAgain(container)).toBe("kept\n");
    expect(await devicesOf(container)).toHaveLength(1);
  });

  test("one whose disk is not mounted here makes no empty snapshot", async () => {
    await using container = await createWritten();
    await using folder = await makeTempFolder();
    await runProgram(["umount", "--lazy", join(host.directoryOf(container.id), "disk")]);
    await expect(container.snapshot(join(folder.path, "layer"))).rejects.toThrow(/not mounted/);
    expect(await readdir(folder.path)).toEqual([]);
    expect((await runInside(container, "cat /root/kept")).stdout).toBe("kept\n");
  });

  test("a program that is in the copy of a disk shares its file system", async () => {
    await using container = await createWritten();
    const disk = join(host.directoryOf(container.id), "disk");
    await using others = new AsyncDisposableStack();
    others.use(await copyMounts(disk));
    await container.halt();
    expect(await bootAgain(container)).toBe("kept\n");
    expect(await devicesOf(container)).toHaveLength(1);
  });

  test("a removed container leaves no device", async () => {
    const container = await createWritten();
    await using others = new AsyncDisposableStack();
    others.use(await copyMounts());
    await container[Symbol.asyncDispose]();
    expect(await devicesOf(container)).toEqual([]);
  });
});

test("a volume that a service uses in another namespace stays mounted there", async () => {
  await using home = await makeTempFolder();
  const disk = { volumeId: "shared", sizeMb: 64, owner: 0 };
  await createVolumeDiskMaker(home.path, PERL_DIRECTORY).make(disk, AbortSignal.timeout(LIMIT_MS));
  const [hold] = await mountVolumeDisks(home.path, PERL_DIRECTORY, [disk]);
  await writeFile(join(volumeContent(home.path, "shared"), "file"), "");
  await using other = startHolder(home.path, "shared");
  expect(await other.names()).toEqual(["file"]);
  await hold?.close();
  await unmountVolumeDisks(home.path, ["shared"]);
  expect(await readdir(join(home.path, "volume-disks/shared/disk"))).toEqual([]);
  expect(await other.names()).toEqual(["file"]);

  // Nobody holds it any more, and only a copy of its mount is left.
  const [again] = await mountVolumeDisks(home.path, PERL_DIRECTORY, [disk]);
  await using others = new AsyncDisposableStack();
  others.use(await copyMounts());
  await other[Symbol.asyncDispose]();
  await again?.close();
  await unmountVolumeDisks(home.path, ["shared"]);
  expect((await takeCensus(home.path)).loopDevices).toEqual([]);
});

test("a volume is unmounted when a program that looked there has gone", async () => {
  await using home = await makeTempFolder();
  const disk = { volumeId: "shared", sizeMb: 64, owner: 0 };
  await createVolumeDiskMaker(home.path, PERL_DIRECTORY).make(disk, AbortSignal.timeout(LIMIT_MS));
  const holds = await mountVolumeDisks(home.path, PERL_DIRECTORY, [disk]);
  for (const hold of holds) await hold.close();
  const script = ["sh", "-c", 'cd "$1" && echo there && sleep 0.2', "sh"] as const;
  const [program, ...words] = [...script, join(home.path, "volume-disks/shared/disk")] as const;
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  await unmountVolumeDisks(home.path, ["shared"]);
  expect((await takeCensus(home.path)).loopDevices).toEqual([]);
  await endChild(child);
});

test("an upload of a service in another namespace goes on when this one mounts the volume", async () => {
  await using home = await makeTempFolder();
  const disk = { volumeId: "shared", sizeMb: 64, owner: 0 };
  await createVolumeDiskMaker(home.path, PERL_DIRECTORY).make(disk, AbortSignal.timeout(LIMIT_MS));
  const mount = async () => mountVolumeDisks(home.path, PERL_DIRECTORY, [disk]);
  const unmount = async (holds: readonly FileHandle[]) => {
    for (const hold of holds) await hold.close();
    await unmountVolumeDisks(home.path, ["shared"]);
  };
  const draft = volumeDraft(home.path, "shared", "upload");

  const first = await mount();
  await writeFile(draft, "part");
  await using other = startHolder(home.path, "shared");
  await other.names();
  await unmount(first);
  const second = await mount();
  expect(await readdir(dirname(draft))).toEqual([basename(draft)]);

  // Nobody is left that could go on with it.
  await unmount(second);
  await other[Symbol.asyncDispose]();
  const third = await mount();
  expect(await readdir(dirname(draft))).toEqual([]);
  await unmount(third);
});

test("a service whose /dev is older than the device of a volume uses that device", async () => {
  await using home = await makeTempFolder();
  const disk = { volumeId: "shared", sizeMb: 64, owner: 0 };
  await createVolumeDiskMaker(home.path, PERL_DIRECTORY).make(disk, AbortSignal.timeout(LIMIT_MS));
  const [hold] = await mountVolumeDisks(home.path, PERL_DIRECTORY, [disk]);
  await writeFile(join(volumeContent(home.path, "shared"), "file"), "");
  const mount = join(home.path, "volume-disks/shared/disk");
  const device = (await readMounts()).find(({ target }) => target === mount)?.source ?? "";
  const older = join(home.path, "dev");
  await mkdir(older);
  // As in a container of its own, which has no copy of the mount either.
  const other = startHolder(home.path, "shared", [
    `umount ${mount}`,
    `mount -t tmpfs none ${older}`,
    `cp -a /dev/null /dev/urandom /dev/loop* ${older}`,
    `rm ${join(older, basename(device))}`,
    `mount --move ${older} /dev`,
  ]);
  const found = { names: await other.names(), images: (await takeCensus(home.path)).loopDevices };
  await other[Symbol.asyncDispose]();
  await hold?.close();
  await unmountVolumeDisks(home.path, ["shared"]);
  expect(found).toEqual({ names: ["file"], images: [expect.stringContaining("disk.img")] });
});

interface Holder extends AsyncDisposable {
  /** What it finds in the volume. */
  names(): Promise<unknown>;
}

/** A process that uses a volume in a mount namespace of its own, after these commands. */
function startHolder(home: string, volumeId: string, before: readonly string[] = []): Holder {
  const script = resolve(import.meta.dirname, "../../support/engine/volume-holder.ts");
  const own = ["--mount", "--propagation", "private", "sh", "-e", "-c"];
  const words = [
    [...before, 'exec "$@"'].join("\n"),
    "sh",
    process.execPath,
    script,
    home,
    volumeId,
  ];
  const child = spawn("unshare", [...own, ...words], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async names() {
      child.stdin.write("\n");
      const { value } = await lines.next();
      return JSON.parse(String(value));
    },
    [Symbol.asyncDispose]: () => endChild(child),
  };
}
