/** Makes one tree of the layers of an image, with what a sandbox needs. */

import { SandboxError } from "../common/errors.ts";
import type { PulledImage, UnpackedImage, UnpackOptions } from "./images.ts";

/**
 * Unpacks an image into `directory`, made by this call: the tree of `/`, owners by plain ids (or as
 * this process stores them, without root). Nothing outside `directory` changes, whatever the layers
 * hold; a failure leaves a partial tree, which the caller removes with its draft.
 * @throws SandboxError failed_precondition for an image that is damaged, beyond a bound, or cannot
 * be a sandbox (no shell, `/etc` is a link, another processor), with the reason; canceled
 */
export async function unpackImage(
  image: Pick<PulledImage, "layout" | "digest">,
  _directory: string,
  _options: UnpackOptions,
): Promise<UnpackedImage> {
  throw new SandboxError("unimplemented", `${image.digest}: images cannot be unpacked yet`);
}
