/** A running `sandbox-mcp serve` in a home of its own. */

import { randomBytes } from "node:crypto";
import { keepStart, shareStart } from "./engine/shared-start.ts";
import { openTestHome, type TestHome } from "./home.ts";
import type { OrdinaryUser } from "./ordinary-user.ts";
import { listeningUrl, startProgram, type TestProgram } from "./program.ts";

export interface TestServe extends AsyncDisposable {
  readonly url: string;
  readonly apiKey: string;
  readonly home: string;
  readonly program: TestProgram;
}

export interface ServeOrigin {
  /** Port, key and home are those of this one, whose home stays its own to remove. */
  readonly earlier?: TestServe;
  /** Who runs it, in a home of the account; root where it is left out. */
  readonly account?: OrdinaryUser | undefined;
  /** The command that is `sandbox-mcp`, where it is not the built program as it is. */
  readonly command?: readonly [string, ...string[]];
  readonly environment?: Readonly<Record<string, string>>;
  /** A home that stays; where it is left out, one of its own. */
  readonly home?: string;
  /** Of a home of its own; default `linked`. */
  readonly base?: "linked" | "copied";
}

/** Starts `serve` on a free port and waits for the line that names it. */
export async function startServe(
  flags: readonly string[] = [],
  origin: ServeOrigin = {},
): Promise<TestServe> {
  const { earlier, account, command, environment, base } = origin;
  const borrowed = earlier?.home ?? account?.data ?? origin.home;
  // A changed environment or program can have another machine to try.
  const isPlain = command === undefined && environment === undefined;
  const home = borrowed === undefined ? await openHome(base, isPlain) : borrowHome(borrowed);
  const apiKey = earlier?.apiKey ?? `e2b_${randomBytes(20).toString("hex")}`;
  const port = earlier === undefined ? "0" : new URL(earlier.url).port;
  const program = startProgram(
    ["serve", "--port", port, "--home", home.path, ...flags],
    { SANDBOX_MCP_API_KEY: apiKey, ...environment },
    account?.program ?? command,
  );
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

/** A home of its own; of a plain service it is as one that was used before. */
async function openHome(base: ServeOrigin["base"], isPlain: boolean): Promise<TestHome> {
  const home = await openTestHome("", base);
  if (!isPlain) return home;
  await shareStart(home.path);
  return {
    path: home.path,
    async [Symbol.asyncDispose]() {
      try {
        await keepStart(home.path);
      } finally {
        await home[Symbol.asyncDispose]();
      }
    },
  };
}

function borrowHome(path: string): TestHome {
  return { path, [Symbol.asyncDispose]: async () => undefined };
}
