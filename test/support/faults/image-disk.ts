/** A disk of its own for a home: an image file with an empty file system, mounted. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "../base-layer.ts";
import type { TestHome } from "../home.ts";

const run = promisify(execFile);

export interface ImageDisk extends TestHome {
  readonly image: string;
  /** Ends all writing at once, as a power cut does: what is not on the disk by now is lost. */
  cut(): Promise<void>;
  /** Mounts what had reached the disk: nothing may use it meanwhile. */
  restore(): Promise<void>;
}

/** Besides the usual ones: nothing reaches the disk before somebody asks for it. */
const LATE_OPTIONS = "loop,noauto_da_alloc,commit=300";
/** EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: not even its journal is written any more. */
const SHUT_DOWN = `open my $h, "<", $ARGV[0] or die "$!"; my $w = pack "L", 2; ioctl $h, 0x8004587d, $w or die "$!"`;

interface Place {
  /** Of the mount. */
  readonly options?: string;
  /** In which the image lies. */
  readonly parent?: string;
}

/** Mounts a sparse image of so many bytes, formatted by this command. */
export async function openImageDisk(
  sizeBytes: number,
  [program, ...words]: readonly [string, ...string[]],
  { options = "loop", parent = tmpdir() }: Place = {},
): Promise<ImageDisk> {
  const directory = await mkdtemp(join(parent, "smcp-d-"));
  const [image, path] = [join(directory, "image"), join(directory, "h")];
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const file = await open(image, "wx");
  await file.truncate(sizeBytes);
  await file.close();
  await mkdir(path);
  await run(program, [...words, image]);
  await run("mount", ["-o", options, image, path]);
  stack.defer(() => unmount(path));
  const owned = stack.move();
  return {
    path,
    image,
    cut: async () => void (await run("perl", ["-e", SHUT_DOWN, path])),
    async restore() {
      // A copy, because the dead file system lives on where another namespace has this mount too.
      await run("cp", ["--sparse=always", image, `${image}.cut`]);
      await unmount(path);
      await run("mount", ["-o", options, `${image}.cut`, path]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * Takes it away with the volumes below it. A namespace that another test made meanwhile keeps a copy
 * of those for a moment, and so their loop devices, whose files are on this disk.
 */
async function unmount(path: string): Promise<void> {
  await run("umount", ["-R", "-l", path]);
}

/** Larger than the reserve of a service and what tests write. */
const HOME_BYTES = 8 * 1024 ** 3;

/** A home with the base template in it, whose power can be cut. */
export async function openCutDisk(): Promise<ImageDisk> {
  await using stack = new AsyncDisposableStack();
  const format = ["mkfs.ext4", "-q", "-F", "-m", "0"] as const;
  const disk = stack.use(await openImageDisk(HOME_BYTES, format, { options: LATE_OPTIONS }));
  await copyBase(disk.path);
  await run("sync", ["-f", disk.path]);
  const owned = stack.move();
  return { ...disk, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Gives a home the base template. */
export async function copyBase(home: string): Promise<void> {
  const [layer] = await baseLayers();
  const base = dirname(layer?.root ?? "");
  await mkdir(join(home, "layers"));
  await run("cp", ["-a", base, join(home, "layers", basename(base))]);
}
