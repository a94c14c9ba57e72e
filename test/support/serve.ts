/** A running `sandbox-mcp serve` in a home of its own. */

import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { openTestHome, type TestHome } from "./home.ts";
import { startProgram, type TestProgram } from "./program.ts";

const START_LIMIT_MS = 30_000;

export interface TestServe extends AsyncDisposable {
  readonly url: string;
  readonly apiKey: string;
  readonly home: string;
  readonly program: TestProgram;
}

/**
 * Starts `serve` on a free port and waits for the line that names it. After an `earlier` one it has
 * the port, the key and the home of that one, which stays the other's to remove.
 */
export async function startServe(
  flags: readonly string[] = [],
  earlier?: TestServe,
): Promise<TestServe> {
  const home = earlier === undefined ? await openTestHome() : borrowHome(earlier.home);
  const apiKey = earlier?.apiKey ?? `e2b_${randomBytes(20).toString("hex")}`;
  const port = earlier === undefined ? "0" : new URL(earlier.url).port;
  const program = startProgram(["serve", "--port", port, "--home", home.path, ...flags], {
    SANDBOX_MCP_API_KEY: apiKey,
  });
  try {
    const url = await listeningUrl(program);
    return {
      url,
      apiKey,
      home: home.path,
      program,
      async [Symbol.asyncDispose]() {
        await program[Symbol.asyncDispose]();
        await home[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await program[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
    throw error;
  }
}

function borrowHome(path: string): TestHome {
  return { path, [Symbol.asyncDispose]: async () => undefined };
}

async function listeningUrl(program: TestProgram): Promise<string> {
  const lines = createInterface({
    input: program.stdout,
    signal: AbortSignal.timeout(START_LIMIT_MS),
  });
  for await (const line of lines) {
    const url = /^listening on (http\S+)$/.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error(`serve ended before it listened:\n${program.stderr()}`);
}
