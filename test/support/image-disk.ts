/** A disk of its own for a home: an image file with an empty file system, mounted. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "./base-layer.ts";
import type { TestHome } from "./home.ts";

const run = promisify(execFile);

export interface ImageDisk extends TestHome {
  readonly image: string;
}

/** Mounts a sparse image of so many bytes, formatted by this command. */
export async function openImageDisk(
  sizeBytes: number,
  [program, ...words]: readonly [string, ...string[]],
): Promise<ImageDisk> {
  const directory = await mkdtemp(join(tmpdir(), "smcp-d-"));
  const [image, path] = [join(directory, "image"), join(directory, "h")];
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const file = await open(image, "wx");
  await file.truncate(sizeBytes);
  await file.close();
  await mkdir(path);
  await run(program, [...words, image]);
  await run("mount", ["-o", "loop", image, path]);
  stack.defer(async () => void (await run("umount", [path])));
  const owned = stack.move();
  return { path, image, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Gives a home the base template. */
export async function copyBase(home: string): Promise<void> {
  const [layer] = await baseLayers();
  const base = dirname(layer?.root ?? "");
  await mkdir(join(home, "layers"));
  await run("cp", ["-a", base, join(home, "layers", basename(base))]);
}
