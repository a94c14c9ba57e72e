/** Fetches an image into an OCI layout, as `addImage` does. */

import { holdImages } from "../../../src/images/image-locks.ts";
import type { PulledImage, PullOptions } from "../../../src/images/images.ts";
import { fetchImage, findImage } from "../../../src/images/pull.ts";

/** Clean-ups of images are kept off until the result is disposed. */
export async function pullImage(reference: string, options: PullOptions): Promise<PulledImage> {
  const hold = await holdImages(options);
  try {
    const image = await fetchImage(await findImage(reference, options), options);
    const dispose = async () => {
      await image[Symbol.asyncDispose]();
      await hold[Symbol.asyncDispose]();
    };
    return { ...image, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await hold[Symbol.asyncDispose]();
    throw error;
  }
}
