/** The pictures of a cell, as files that the program of run_code wrote in the sandbox. */

import type { Sandbox } from "../../client/envd.ts";
import type { ReplyImage } from "../replies/respond.ts";
import type { ToolContext } from "../tool.ts";
import { MAX_IMAGE_SIDE, readImage } from "./image.ts";
import { isWholeImage } from "./whole-image.ts";

/** Has a directory for each cell. */
export const CELL_FOLDER = "/tmp/run_code";
/** Of one result; providers limit a request, and a model pays for each. */
const MAX_IMAGES = 4;
/** So many are looked at: what a picture is not is only known when it has been read. */
const MAX_PICTURE_READS = 2 * MAX_IMAGES;

/** The first pictures within the bounds of every provider and of the transport; the others are named in the output. */
export async function readPictures(
  sandbox: Sandbox,
  paths: readonly string[],
  { signal, log, maxImageBytes }: ToolContext,
): Promise<{ readonly images: readonly ReplyImage[]; readonly named: readonly string[] }> {
  const images: ReplyImage[] = [];
  let leftBytes = maxImageBytes;
  for (const path of paths.slice(0, MAX_PICTURE_READS)) {
    if (images.length === MAX_IMAGES || !path.startsWith(`${CELL_FOLDER}/`)) break;
    try {
      const range = { offset: 0, limit: leftBytes };
      const { bytes, sizeBytes } = await sandbox.files.read(path, range, { signal });
      const image = sizeBytes === bytes.length ? readImage(bytes) : undefined;
      if (image === undefined || Math.max(image.width, image.height) > MAX_IMAGE_SIDE) continue;
      if (!(await isWholeImage(bytes, image.mimeType))) continue;
      leftBytes -= bytes.length;
      images.push({ base64: bytes.toString("base64"), mimeType: image.mimeType });
      if (leftBytes <= 0) break;
    } catch (error) {
      log.debug({ op: "run_code.picture", sandboxId: sandbox.id, err: error });
    }
  }
  const others = paths.length - images.length;
  const named = others > 0 ? [`${others} more pictures are named in the output`] : [];
  return { images, named };
}
