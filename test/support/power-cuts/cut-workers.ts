/** Checks of cuts by programs of their own: one for each processor, and less to copy for each of their children. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { z } from "../../../src/common/schema.ts";
import type { Expected } from "./check-cut.ts";
import { answerOf } from "./child-answer.ts";
import type { Recording } from "./cut-disks.ts";
import type { Order } from "./cut-worker.ts";
import type { Cut } from "./replay.ts";

const PROGRAM = resolve(import.meta.dirname, "cut-worker.ts");
const ISOLATED = ["unshare", "--mount", "--propagation", "private"] as const;
const faultsSchema = z.array(z.string());

interface CutWorker extends AsyncDisposable {
  /** Faults, one line each. Cuts come in the order of their positions, one at a time. */
  check(cut: Cut): Promise<readonly string[]>;
}

/** @throws Error when it ends before it has answered. */
export async function startCutWorker(recording: Recording, expected: Expected): Promise<CutWorker> {
  const [program, ...words] = [...ISOLATED, process.execPath, PROGRAM] as const;
  const child = spawn(program, words, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const exit = once(child, "exit");
  const ask = async (order: Order) => {
    const answer = answerOf(child, "program that checks cuts");
    child.send(order);
    return faultsSchema.parse(await answer);
  };
  const { ledger, builds } = expected;
  await ask({ recording, changes: ledger.changes(), builds: [...builds] });
  return {
    check: (cut) => ask({ cut }),
    async [Symbol.asyncDispose]() {
      if (child.connected) child.disconnect();
      await exit;
    },
  };
}
