/** Makes an image a layer of a home, once for each digest. */

import { SandboxError } from "../common/errors.ts";
import type { AddImageOptions, ImageLayer } from "./images.ts";

/**
 * Fetches and unpacks an image unless its layer is there, and calls `commit` with it while the lock
 * holds; `commit` writes the row that names the layer. Returns what `commit` returns.
 * @throws SandboxError as `pullImage` and `unpackImage`
 */
export async function addImage<T>(
  reference: string,
  _options: AddImageOptions,
  _commit: (image: ImageLayer) => T | Promise<T>,
): Promise<T> {
  throw new SandboxError("unimplemented", `${reference}: images cannot be added yet`);
}
