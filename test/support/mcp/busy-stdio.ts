/** A session that holds everything that could be left when it ends. */

import assert from "node:assert/strict";
import type { RawStdio } from "./raw-stdio.ts";

/** A sandbox with a running process and an armed watcher. */
export async function makeBusy(raw: RawStdio): Promise<void> {
  await raw.initialize();
  const created = await raw.request("tools/call", { name: "create_sandbox", arguments: {} });
  const fields = created["structuredContent"];
  const isMade = typeof fields === "object" && fields !== null && "sandbox_id" in fields;
  assert.ok(isMade, JSON.stringify(created));
  const sandbox = { sandbox_id: String(fields.sandbox_id) };
  const call = async (name: string, input: object): Promise<unknown> =>
    raw.request("tools/call", { name, arguments: { ...sandbox, ...input } });
  await call("run_process", { cmd: "sleep 600", wait_seconds: 0 });
  await call("watch_path", { path: ".", wait_seconds: 0 });
}
