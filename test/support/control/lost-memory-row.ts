/** A row of the control API: a paused sandbox whose memory on disk does not come back. */

import { expect } from "vitest";
import { createMemoryEngine } from "../engine/memory-engine.ts";
import { startTestService } from "../service.ts";

export async function lostMemoryRow() {
  const memory = createMemoryEngine();
  const pauseToDisk = { afterSeconds: 0, isAtExit: false };
  const service = await startTestService({ engine: memory.engine, pauseToDisk });
  const { sandboxID } = await service.create();
  const path = `/sandboxes/${sandboxID}`;
  await service.embedded.sandboxes.pause(sandboxID, true);
  const look = async () => (await service.call({ path })).body;
  memory.failRestore();
  // Its memory is moved meanwhile.
  await expect.poll(look).toHaveProperty("pausedMemoryFault");
  return { call: { path }, service, finish: async () => service[Symbol.asyncDispose]() };
}
