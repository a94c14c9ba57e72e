/** What a user is told of a `--store-gb` that makes no store of that size. */

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { ifThere } from "../common/files.ts";
import { STORE_NAMES } from "../engine/storage/store-image.ts";

const BYTES_PER_GB = 1024 ** 3;

/** Undefined where the home has what was asked for, or needs none because its files share blocks. */
export async function storeNote(
  home: string,
  sizeGb: number | undefined,
): Promise<string | undefined> {
  if (sizeGb === undefined) return undefined;
  const image = await ifThere(stat(join(home, STORE_NAMES.image)));
  const bytes = image?.size ?? sizeGb * BYTES_PER_GB;
  if (bytes === sizeGb * BYTES_PER_GB) return undefined;
  return `--store-gb ${sizeGb}: the home has a store of ${bytes / BYTES_PER_GB} GiB, which keeps its size`;
}
