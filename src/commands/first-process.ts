/**
 * The program as process 1 of a container. The kernel gives it the first processes of sandboxes, whose
 * runtime has ended; Node collects only its own children, so two zombies stay of each sandbox.
 */

import type { EngineCheck } from "../engine/engine.ts";

const DETAIL = "process 1 collects no processes of ended sandboxes";
const REMEDY = "docker run --init, or init: true of Docker Compose";

/** For `doctor`; nothing for any other process. */
export function checkFirstProcess(pid: number = process.pid): EngineCheck[] {
  if (pid !== 1) return [];
  return [{ name: "first process", outcome: "warning", detail: DETAIL, remedy: REMEDY }];
}

/** For the start of a service. */
export function firstProcessNote(pid: number = process.pid): string | undefined {
  return pid === 1 ? `${DETAIL}: ${REMEDY}` : undefined;
}
