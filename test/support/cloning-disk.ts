/** A home on a disk of its own whose file system shares blocks between files. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "./base-layer.ts";
import type { TestHome } from "./home.ts";

const run = promisify(execFile);
/** Sparse; larger than the reserve of a service and what tests write. */
const SIZE_BYTES = 16 * 1024 ** 3;

/** Mounts an empty one. */
export async function openCloningDisk(): Promise<TestHome> {
  const directory = await mkdtemp(join(tmpdir(), "smcp-c-"));
  const [image, path] = [join(directory, "image"), join(directory, "h")];
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  const file = await open(image, "wx");
  await file.truncate(SIZE_BYTES);
  await file.close();
  await mkdir(path);
  await run("mkfs.xfs", ["-q", "-K", "-m", "reflink=1", image]);
  await run("mount", ["-o", "loop", image, path]);
  stack.defer(async () => void (await run("umount", [path])));
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** With the base template in it. */
export async function openCloningHome(): Promise<TestHome> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openCloningDisk());
  const [layer] = await baseLayers();
  const base = dirname(layer?.root ?? "");
  await mkdir(join(path, "layers"));
  await run("cp", ["-a", base, join(path, "layers", basename(base))]);
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
