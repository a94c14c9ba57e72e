/** The calls of a neighbour beside sandboxes that flood the service with log lines. */

import { startFloodedService } from "../test/support/hostile/flooded-service.ts";
import { measureNeighbour } from "../test/support/hostile/neighbour.ts";
import type { NeighbourFigures } from "../test/support/run/figures.ts";
import type { Row } from "./figure.ts";

const ROUNDS = 4;
const CALLS = 100;
const FLOODERS = 3;
const MAX_RATIO = 2;
const SHAPES = ["log lines", "chunks of one byte"];

export async function measureFlood(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const shape of SHAPES) rows.push(toRow(shape, await measure(shape)));
  return rows;
}

async function measure(shape: string): Promise<NeighbourFigures> {
  await using flooded = await startFloodedService();
  const figures = await measureNeighbour({
    bomb: shape,
    call: () => flooded.call(),
    ignite: async () => flooded.flood({ count: FLOODERS, seed: 1, shape }),
    rounds: ROUNDS,
    calls: CALLS,
  });
  // Not returned as a promise: the service ends with this function.
  return figures;
}

/** The figure is the 90th percentile: a median would hide what comes now and then. */
function toRow(shape: string, { beside, without, calls }: NeighbourFigures): Row {
  return {
    id: `flood-${shape.replaceAll(" ", "-")}`,
    name: `stat, p90, beside ${FLOODERS} floods of ${shape}`,
    unit: "ms",
    ours: beside.p90,
    floor: without.p90,
    floorName: "the same without a flood",
    samples: calls,
    peers: [],
    verdicts: [{ goal: `≤ ${MAX_RATIO} x`, isMet: beside.p90 <= MAX_RATIO * without.p90 }],
  };
}
