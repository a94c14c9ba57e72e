/** Which requests write, what a write is called, and the one that fails. */

import { existsSync, readFileSync, readlinkSync } from "node:fs";
import { constants } from "node:os";
import { basename } from "node:path";
import { z } from "../../../src/common/schema.ts";
import { OPCODE, type FuseAnswer, type FuseRequest } from "../faults/fuse.ts";
import { nameAt, type PassThrough } from "./pass-through.ts";

export const FAULT_KINDS = ["ENOSPC", "EIO", "short write"] as const;

/** One write of an operation: what it does to which file, by which program, and the how manieth. */
export const planSchema = z.object({
  place: z.string(),
  /** The first time is 1. */
  time: z.int().positive(),
  kind: z.enum(FAULT_KINDS),
});
export type FaultPlan = z.infer<typeof planSchema>;

export const writesSchema = z.array(
  z.object({
    place: z.string(),
    times: z.int(),
    /** Whether each of them can be done in part. */
    canBeShort: z.boolean(),
  }),
);
export type Writes = z.infer<typeof writesSchema>;

/** Of requests that write, and where the name is in the body of those that have one. */
const WRITES: ReadonlyMap<number, { readonly word: string; readonly nameOffset?: number }> =
  new Map([
    [OPCODE.setattr, { word: "setattr" }],
    [OPCODE.symlink, { word: "symlink", nameOffset: 0 }],
    [OPCODE.mknod, { word: "mknod", nameOffset: 16 }],
    [OPCODE.mkdir, { word: "mkdir", nameOffset: 8 }],
    [OPCODE.unlink, { word: "unlink", nameOffset: 0 }],
    [OPCODE.rmdir, { word: "rmdir", nameOffset: 0 }],
    [OPCODE.rename, { word: "rename", nameOffset: 8 }],
    [OPCODE.link, { word: "link", nameOffset: 8 }],
    [OPCODE.write, { word: "write" }],
    [OPCODE.fsync, { word: "fsync" }],
    [OPCODE.fsyncdir, { word: "fsync" }],
    [OPCODE.setxattr, { word: "setxattr" }],
    [OPCODE.removexattr, { word: "removexattr" }],
    [OPCODE.create, { word: "create", nameOffset: 16 }],
  ]);
/** What a program wrote through a mapping, which the kernel brings to the file some time later. */
const FROM_CACHE = 1;
const KERNEL = "kernel";
/** Identifiers, hashes and numbers. */
const CHANCE_PATTERN =
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b(?=[a-z0-9]*[0-9])[a-z0-9]{8,}\b|[0-9]+/g;

export interface Faults {
  readonly answer: FuseAnswer;
  /** Counts from now on, and lets one write fail. */
  begin(plan: FaultPlan | undefined): void;
  /** What was counted, and whether the planned write has come. */
  end(): { readonly writes: Writes; readonly isHit: boolean };
}

export function createFaults(files: PassThrough): Faults {
  let isCounting = false;
  let plan: FaultPlan | undefined;
  let isHit = false;
  const counts = new Map<string, { times: number; canBeShort: boolean }>();

  /** Notes a write; whether it is the planned one. */
  function note(request: FuseRequest): boolean {
    const kind = WRITES.get(request.opcode);
    if (!isCounting || kind === undefined || isFromCache(request)) return false;
    // The test looks into the database of the home.
    if (existsSync(`/proc/${process.ppid}/task/${request.pid}`)) return false;
    const program = programOf(request.pid);
    const place = `${program} ${kind.word} ${pathOf(files, request, kind.nameOffset)}`;
    const count = counts.get(place) ?? { times: 0, canBeShort: true };
    count.times += 1;
    // The driver of loop devices is told of the whole or of a fault.
    count.canBeShort &&= canBeShort(request) && program !== KERNEL;
    counts.set(place, count);
    return plan?.place === place && plan.time === count.times;
  }

  return {
    answer(request) {
      if (!note(request) || plan === undefined) return files.answer(request);
      isHit = true;
      if (plan.kind !== "short write") return constants.errno[plan.kind];
      return canBeShort(request) ? files.answer(halfOf(request)) : files.answer(request);
    },
    begin(next) {
      counts.clear();
      [plan, isHit, isCounting] = [next, false, true];
    },
    end() {
      isCounting = false;
      const writes = [...counts].map(([place, count]) => ({ place, ...count }));
      return { writes, isHit };
    },
  };
}

function isFromCache({ opcode, body }: FuseRequest): boolean {
  return opcode === OPCODE.write && (body.readUInt32LE(20) & FROM_CACHE) !== 0;
}

function canBeShort({ opcode, body }: FuseRequest): boolean {
  return opcode === OPCODE.write && body.readUInt32LE(16) > 1;
}

function halfOf(request: FuseRequest): FuseRequest {
  const body = Buffer.from(request.body);
  body.writeUInt32LE(body.readUInt32LE(16) >> 1, 16);
  return { ...request, body };
}

/** The program, the kernel itself, or nothing of one that has ended. */
function programOf(pid: number): string {
  try {
    // A runtime runs from a copy of itself that has no name.
    const name = basename(readlinkSync(`/proc/${pid}/exe`));
    return name === "" ? readFileSync(`/proc/${pid}/comm`, "utf8").trimEnd() : name;
  } catch {
    // A thread of the kernel has none.
    return isOfKernel(pid) ? KERNEL : "ended";
  }
}

function isOfKernel(pid: number): boolean {
  if (pid === 0) return true;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8") === "";
  } catch {
    // It has just ended.
    return false;
  }
}

function pathOf(files: PassThrough, { node, body }: FuseRequest, nameOffset?: number): string {
  try {
    const name = nameOffset === undefined ? undefined : nameAt(body, nameOffset);
    return files.pathOf(node, name).replaceAll(CHANCE_PATTERN, "*");
  } catch {
    return "removed";
  }
}
