/**
 * A program that serves a folder as a file system in which single writes fail. What it is to do comes as
 * messages of its parent, the end of whose channel ends it. No path is an argument: programs that have the
 * home in theirs count as the home's.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { z } from "../../../src/common/schema.ts";
import { mountFuse, type FuseMount } from "../faults/fuse.ts";
import { createFaults, planSchema, type Faults } from "./faults.ts";
import { createPassThrough } from "./pass-through.ts";

const run = promisify(execFile);

const orderSchema = z.union([
  z.object({ folder: z.string(), target: z.string() }),
  z.object({ begin: planSchema.nullable() }),
  z.object({ end: z.literal(true) }),
]);
export type Order = z.infer<typeof orderSchema>;

let faults: Faults | undefined;
let mounted: FuseMount | undefined;

async function obey(order: Order): Promise<unknown> {
  if ("folder" in order) {
    faults = createFaults(createPassThrough(order.folder));
    mounted = await mountFuse(order.target, faults.answer, ["default_permissions"]);
    return {};
  }
  if ("end" in order) return faults?.end();
  faults?.begin(order.begin ?? undefined);
  return {};
}

process.on("message", (message) => {
  void obey(orderSchema.parse(message)).then((answer) => process.send?.(answer));
});
// A copy of the mount that somebody else has must not keep this program: what is left of it fails then.
process.once("disconnect", () => {
  void run("umount", ["-l", mounted?.path ?? ""]).finally(() => process.exit(0));
});
