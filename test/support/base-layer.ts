/** The base template's layer, built once for all tests of this machine. */

import { access, mkdir, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { SandboxError } from "../../src/common/errors.ts";
import type { Layer } from "../../src/engine/engine.ts";
import { buildBase } from "../../src/engine/template-base.ts";

const CACHE = process.env["SANDBOX_MCP_TEST_CACHE"] ?? join(tmpdir(), "sandbox-mcp-test-cache");
const BUILD_TIMEOUT_MS = 10 * 60_000;
const POLL_MS = 500;

/** The layers of the base template; the first caller builds them, others wait for it. */
export async function baseLayers(): Promise<readonly Layer[]> {
  const directory = join(CACHE, "base");
  const endMs = performance.now() + BUILD_TIMEOUT_MS;
  while (performance.now() < endMs) {
    const root = join(directory, "root");
    if (await isThere(root)) return [{ root }];
    if (await tryBuild(directory)) continue;
    await delay(POLL_MS);
  }
  throw new SandboxError("deadline_exceeded", `no base layer in ${directory}`);
}

/** False when another process builds it at this moment. */
async function tryBuild(directory: string): Promise<boolean> {
  const lock = `${directory}.lock`;
  await mkdir(dirname(lock), { recursive: true, mode: 0o700 });
  try {
    await mkdir(lock);
  } catch {
    return false;
  }
  try {
    await buildBase({ directory, signal: AbortSignal.timeout(BUILD_TIMEOUT_MS) });
    return true;
  } finally {
    await rmdir(lock);
  }
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
