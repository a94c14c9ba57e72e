/**
 * A program that checks what cuts leave. Messages of its parent are its orders: first what was recorded,
 * then one cut after the other, in the order of their positions. Each is answered, a cut by its faults; the end of
 * its parent's channel ends it. It has a mount namespace of its own, so that several can have a home at one
 * place: the place of a home is part of it.
 */

import { tmpdir } from "node:os";
import { sep } from "node:path";
import { errorText } from "../../../src/common/errors.ts";
import { z } from "../../../src/common/schema.ts";
import { readMounts } from "../../../src/engine/host/mount-table.ts";
import { checkCut, type Expected } from "./check-cut.ts";
import { openCutDisks, recordingSchema, withCut, type CutDisks } from "./cut-disks.ts";
import { changesSchema, createLedger } from "./ledger.ts";
import { startMounter } from "./mounter.ts";
import { cutSchema, type Cut } from "./replay.ts";

const beginSchema = z.object({
  recording: recordingSchema,
  changes: changesSchema,
  builds: z.array(z.tuple([z.string(), z.string()])),
});
const orderSchema = z.union([beginSchema, z.object({ cut: cutSchema })]);
export type Order = z.infer<typeof orderSchema>;

interface Begun {
  readonly home: string;
  readonly disks: CutDisks;
  readonly expected: Expected;
}

let begun: Begun | undefined;

async function obey(order: Order): Promise<readonly string[]> {
  if ("cut" in order) return check(order.cut);
  const { recording, changes, builds } = order;
  await leaveMounts(recording.copies);
  const expected = { ledger: createLedger(() => 0, changes), builds: new Map(builds) };
  begun = { home: recording.home, disks: await openCutDisks(recording), expected };
  return [];
}

async function check(cut: Cut): Promise<readonly string[]> {
  if (begun === undefined) return ["nothing was recorded"];
  const { home, disks, expected } = begun;
  return withCut(disks, cut, () => checkCut(home, expected, cut.position)).catch(
    (error: unknown) => [`the disk cannot be used: ${errorText(error)}`],
  );
}

/** Copies of mounts of other tests would keep their disks in use for as long as this program runs. */
async function leaveMounts(needed: string): Promise<void> {
  await using mounter = startMounter();
  const below = (await readMounts()).map(({ target }) => target);
  for (const target of below.filter((path) => path.startsWith(tmpdir() + sep)).toReversed()) {
    if (!(needed + sep).startsWith(target + sep)) await mounter.detach(target);
  }
}

async function endAll(): Promise<void> {
  try {
    await begun?.disks[Symbol.asyncDispose]();
  } finally {
    process.exit(0);
  }
}

process.on("message", (message) => {
  void obey(orderSchema.parse(message)).then((faults) => process.send?.(faults));
});
process.once("disconnect", () => {
  void endAll();
});
