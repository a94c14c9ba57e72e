/** Maps of sparse files: which parts of a file a tar has, in every form that programs write. */

import type { ByteReader } from "./byte-reader.ts";
import { BLOCK_BYTES, numberField, paxNumber, tarFault, type PaxRecords } from "./tar-fields.ts";

/** A part of a file that the archive has; what lies between two of them is a hole. */
export interface Extent {
  readonly offset: number;
  readonly size: number;
}

export interface SparseMap {
  readonly extents: readonly Extent[];
  /** Of the file with its holes. */
  readonly size: number;
}

const MAX_EXTENTS = 65_536;
const NUMBER_BYTES = 12;
const LINE_FEED = 0x0a;
/** A number of pax with the end of its line. */
const MAX_LINE_BYTES = 17;
/** Of the lines before the data: how many parts there are, and two for each. */
const MAX_MAP_BYTES = (1 + 2 * MAX_EXTENTS) * MAX_LINE_BYTES + BLOCK_BYTES;
const PAIR_BYTES = 2 * NUMBER_BYTES;

/** In the header of the old form of GNU. */
const OLD = { pairs: 386, count: 4, isExtended: 482, size: 483 } as const;
/** In each block that continues it. */
const MORE = { pairs: 0, count: 21, isExtended: 504 } as const;

/** The map of the old form: in the header and in blocks after it. */
export async function readOldMap(header: Buffer, reader: ByteReader): Promise<SparseMap> {
  const extents = readPairs(header, OLD);
  let isExtended = header[OLD.isExtended] !== 0;
  while (isExtended) {
    const block = await reader.require(BLOCK_BYTES);
    extents.push(...readPairs(block, MORE));
    if (extents.length > MAX_EXTENTS) tarFault("a sparse file has too many parts");
    isExtended = block[MORE.isExtended] !== 0;
  }
  return { extents, size: numberField(header, OLD.size, NUMBER_BYTES) };
}

function readPairs(block: Buffer, place: { readonly pairs: number; readonly count: number }) {
  const extents: Extent[] = [];
  for (let index = 0; index < place.count; index += 1) {
    const at = place.pairs + index * PAIR_BYTES;
    // An entry of zeros ends the list.
    if (block[at] === 0) break;
    const offset = numberField(block, at, NUMBER_BYTES);
    extents.push({ offset, size: numberField(block, at + NUMBER_BYTES, NUMBER_BYTES) });
  }
  return extents;
}

/** What records of pax say about a sparse file: its map, or that it stands before the data. */
export interface PaxSparse {
  readonly name: string | undefined;
  readonly map: SparseMap | "before the data";
  readonly size: number;
}

/** Undefined where they say nothing of it; `last` has the last value of each key. */
export function readPaxSparse(
  records: PaxRecords,
  last: ReadonlyMap<string, string>,
): PaxSparse | undefined {
  const of = (key: string) => last.get(`GNU.sparse.${key}`);
  const name = of("name");
  if (of("major") !== undefined) {
    if (of("major") !== "1" || of("minor") !== "0") tarFault("a sparse file of an unknown version");
    const size = paxNumber(of("realsize") ?? "");
    return { name, size, map: "before the data" };
  }
  const stated = of("size");
  if (stated === undefined) return undefined;
  const size = paxNumber(stated);
  const listed = of("map");
  const numbers =
    listed === undefined
      ? records
          .filter(([key]) => key === "GNU.sparse.offset" || key === "GNU.sparse.numbytes")
          .map(([, value]) => value)
      : listed.split(",").filter((text) => text !== "");
  return { name, size, map: { size, extents: toExtents(numbers.map((text) => paxNumber(text))) } };
}

function toExtents(numbers: readonly number[]): Extent[] {
  if (numbers.length % 2 !== 0 || numbers.length > 2 * MAX_EXTENTS) {
    tarFault("the map of a sparse file is not valid");
  }
  const extents: Extent[] = [];
  for (let at = 0; at < numbers.length; at += 2) {
    extents.push({ offset: numbers[at] ?? 0, size: numbers[at + 1] ?? 0 });
  }
  return extents;
}

/** The map of version 1.0: decimal numbers in lines, padded to a block, before the data. */
export async function readLeadingMap(
  reader: ByteReader,
  limit: { readonly size: number; readonly dataBytes: number },
): Promise<{ readonly map: SparseMap; readonly takenBytes: number }> {
  const blocks: Buffer[] = [];
  let takenBytes = 0;
  let lineCount = 0;
  // The first line is the number of parts, each of which has two.
  let wanted = 1;
  while (lineCount < wanted) {
    if (takenBytes + BLOCK_BYTES > limit.dataBytes) tarFault("the map of a sparse file is cut off");
    if (takenBytes >= MAX_MAP_BYTES) tarFault("the map of a sparse file is too long");
    const block = await reader.require(BLOCK_BYTES);
    blocks.push(block);
    takenBytes += BLOCK_BYTES;
    lineCount += block.reduce((sum, byte) => sum + (byte === LINE_FEED ? 1 : 0), 0);
    if (wanted === 1 && lineCount > 0) wanted += 2 * countOf(blocks);
  }
  const lines = Buffer.concat(blocks).toString("latin1").split("\n");
  const numbers = lines.slice(1, wanted).map((line) => paxNumber(line));
  return { map: { size: limit.size, extents: toExtents(numbers) }, takenBytes };
}

function countOf(blocks: readonly Buffer[]): number {
  const [line = ""] = Buffer.concat(blocks).toString("latin1").split("\n", 1);
  const count = paxNumber(line);
  if (count > MAX_EXTENTS) tarFault("a sparse file has too many parts");
  return count;
}

/** The parts ascend, do not overlap, lie in the file and have as many bytes as the archive. */
export function checkMap({ extents, size }: SparseMap, dataBytes: number): void {
  let end = 0;
  let sum = 0;
  for (const extent of extents) {
    if (extent.offset < end || extent.size < 0) tarFault("parts of a sparse file overlap");
    end = extent.offset + extent.size;
    sum += extent.size;
  }
  if (end > size || sum !== dataBytes) tarFault("the map of a sparse file does not fit its data");
}
