/** Whether the data of a PNG inflates to all of its rows: a decoder refuses any other data. */

import { createInflate } from "node:zlib";

/** By the type of colour: the samples of a pixel, and the bits that one may have. */
const COLOURS: Readonly<Record<number, { samples: number; depths: readonly number[] }>> = {
  0: { samples: 1, depths: [1, 2, 4, 8, 16] },
  2: { samples: 3, depths: [8, 16] },
  3: { samples: 1, depths: [1, 2, 4, 8] },
  4: { samples: 2, depths: [8, 16] },
  6: { samples: 4, depths: [8, 16] },
};

/** By the kind of interlacing: where each pass begins, and its steps, in columns and rows. */
const PASSES: Readonly<Record<number, readonly (readonly [number, number, number, number])[]>> = {
  0: [[0, 0, 1, 1]],
  1: [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
  ],
};

const CHUNK_BYTES = 65_536;

/**
 * `picture` has a whole header with sides that are shown, which bound the time that this takes; `data`
 * is that of all its chunks with data.
 */
export async function hasAllRows(picture: Buffer, data: Buffer): Promise<boolean> {
  let missing = sizeOfRows(picture);
  if (missing === undefined) return false;
  // What it inflates to may be hundreds of megabytes, of which none is kept.
  const inflate = createInflate({ chunkSize: CHUNK_BYTES });
  inflate.end(data);
  try {
    for await (const rows of inflate) {
      missing -= Buffer.byteLength(rows);
      if (missing <= 0) return true;
    }
  } catch {
    // It does not inflate.
  }
  return false;
}

/** Undefined for a header that no decoder takes. */
function sizeOfRows(picture: Buffer): number | undefined {
  const width = picture.readUInt32BE(16);
  const height = picture.readUInt32BE(20);
  const [depth = 0, type = 0, compression, filter, interlace = 0] = picture.subarray(24, 29);
  const colour = COLOURS[type];
  const passes = PASSES[interlace];
  if (colour?.depths.includes(depth) !== true || passes === undefined) return undefined;
  if (compression !== 0 || filter !== 0) return undefined;
  return passes.reduce((size, [left, top, columns, rows]) => {
    const pixels = Math.ceil((width - left) / columns);
    const lines = Math.ceil((height - top) / rows);
    if (pixels <= 0 || lines <= 0) return size;
    // One byte before each row names its filter.
    return size + lines * (1 + Math.ceil((pixels * depth * colour.samples) / 8));
  }, 0);
}
