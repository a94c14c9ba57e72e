/**
 * R1 and R22: whoever starts the program, and however that ends, nothing is left; and a service that
 * is asked to end lets go of what it serves in time.
 */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { takeCensus, type Census } from "../support/census.ts";
import { openTestHome, type TestHome } from "../support/home.ts";
import { makeBusy } from "../support/mcp/busy-stdio.ts";
import { openRawStdio, type RawStdio } from "../support/mcp/raw-stdio.ts";
import { PROGRAM, startProgram } from "../support/program.ts";
import { tellCells } from "../support/run/cells.ts";
import { attackedRuntimes, IS_WHOLE_RUN } from "../support/runtimes.ts";

const END_LIMIT_MS = 10_000;
/** A machine under load starts slowly; a unary call that goes on longer than this hangs. */
const CALL_LIMIT_MS = 10_000;
const CALLS = 20;

interface Session {
  readonly child: ChildProcess;
  readonly raw: RawStdio;
}

/** Ways in which hosts start a server; the words come before those of the program. */
const MODES: Readonly<Record<string, readonly string[]>> = {
  // The streams are a pair of sockets each.
  directly: [],
  "by npx": [
    "sh",
    "-c",
    `exec npx --offline -c '"$SERVER_NODE" "$SERVER" stdio $SERVER_FLAGS'`,
    "sh",
  ],
  "by a shell": ["sh", "-c", '"$@"; exit $?', "sh"],
  "behind pipes": ["sh", "-c", 'cat | "$@" | cat', "sh"],
  "in a session of its own": ["setsid", "--wait"],
  "as process 1": ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
};
const CLOSED_STDOUT = "a closed stdout";
const PARENT_KILL = "the kill of its parent";
const TRIGGERS: Readonly<Record<string, (session: Session) => void>> = {
  "the end of stdin": ({ child }) => child.stdin?.end(),
  [CLOSED_STDOUT]: ({ child, raw }) => {
    child.stdout?.destroy();
    raw.notify("notifications/initialized");
    // The answer to this has nowhere to go.
    raw.request("tools/list").catch(() => undefined);
  },
  [PARENT_KILL]: ({ child }) => {
    child.kill("SIGKILL");
    child.stdin?.destroy();
  },
};
interface Cell {
  readonly mode: string;
  readonly by: string;
}

const ALL: readonly Cell[] = Object.keys(MODES).flatMap((mode) =>
  Object.keys(TRIGGERS).map((by) => ({ mode, by })),
);
/** Elsewhere the parent's kill is that of the server itself: then nobody is left to clean up. */
const WITH_PARENT = new Set(["by npx", "by a shell", "behind pipes"]);
const CELLS = ALL.filter(({ mode, by }) => {
  if (by === PARENT_KILL) return WITH_PARENT.has(mode);
  // What a program writes into a pipe is not refused before somebody else has given it up.
  return by !== CLOSED_STDOUT || mode !== "behind pipes";
});
/** Each time for the default runtime, of which the e2e level tests more. */
const SHORT_LIST = CELLS.filter(({ mode }) => mode === "by a shell").slice(0, 1);
/** Of each cell, on the first runtime of a whole run. */
const TRIALS = 10;

const PLACES = attackedRuntimes().map((runtime, index) => ({
  runtime,
  trials: IS_WHOLE_RUN && index === 0 ? TRIALS : 1,
}));

describe.each(PLACES)("on $runtime", ({ runtime, trials }) => {
  let home: TestHome;
  let before: Census;

  beforeAll(async () => {
    home = await openTestHome();
    before = await lookAtHome();
  });

  afterAll(async () => home[Symbol.asyncDispose]());

  /** A home keeps its folders. */
  const lookAtHome = async (): Promise<Census> => ({
    ...(await takeCensus(home.path)),
    folders: [],
  });

  const startSession = (mode: string): Session => {
    const flags = ["--home", home.path, "--runtime", runtime];
    const program = [process.execPath, PROGRAM, "stdio", ...flags];
    const [file, ...words] = [...(MODES[mode] ?? []), ...program];
    assert.ok(file !== undefined);
    const child = spawn(file, words, {
      stdio: ["pipe", "pipe", "ignore"],
      env: {
        PATH: process.env["PATH"] ?? "",
        SANDBOX_MCP_LOG_LEVEL: "error",
        // For npx, which takes one line of a shell instead of words.
        SERVER_NODE: process.execPath,
        SERVER: PROGRAM,
        SERVER_FLAGS: flags.join(" "),
        npm_config_cache: join(home.path, "npm"),
        npm_config_update_notifier: "false",
      },
    });
    return { child, raw: openRawStdio(child.stdin, child.stdout) };
  };

  /** Whatever happens, the session is asked to end. */
  const expectCleanEnd = async ({ mode, by }: Cell): Promise<void> => {
    const session = startSession(mode);
    const { child, raw } = session;
    try {
      await makeBusy(raw);
      TRIGGERS[by]?.(session);
      await expect.poll(lookAtHome, { timeout: END_LIMIT_MS, interval: 100 }).toEqual(before);
      expect(raw.strays).toEqual([]);
    } finally {
      child.stdin?.destroy();
      child.stdout?.destroy();
    }
  };

  test.for(IS_WHOLE_RUN ? CELLS : SHORT_LIST)(
    "R1 started $mode, $by ends it and leaves nothing",
    async (cell, context) => {
      for (let count = 0; count < trials; count += 1) await expectCleanEnd(cell);
      tellCells(context, trials);
    },
  );

  test("R22 a service that is asked to end ends its streams and finishes its calls", async () => {
    const { program, options, url } = await startService(home.path, runtime);
    const sandbox = await Sandbox.create("base", options);
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    const stream = command.wait().then(
      () => "ended",
      () => "told",
    );
    const calls = Array.from({ length: CALLS }, async (_, index) =>
      fetch(`${url}/v2/sandboxes`, {
        headers: { "x-api-key": options.apiKey },
        signal: AbortSignal.timeout(CALL_LIMIT_MS + index),
      }).then(
        async (reply) => (Array.isArray(await reply.json()) ? "whole" : "refused"),
        (error: unknown) => (String(error).includes("timeout") ? "hangs" : "refused"),
      ),
    );
    program.child.kill("SIGTERM");
    expect(await program.exited()).toBe(0);
    expect(await stream).toBe("told");
    const outcomes = new Set(await Promise.all(calls));
    expect(outcomes.difference(new Set(["whole", "refused"]))).toEqual(new Set());
    await expect(fetch(`${url}/health`)).rejects.toThrow(/fetch failed/);
    await collect(home.path, runtime);
    expect(await lookAtHome()).toEqual(before);
  });

  test("R22 a second signal ends it at once, whatever it serves", async () => {
    const { program, options } = await startService(home.path, runtime);
    const sandbox = await Sandbox.create("base", options);
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    const stream = command.wait().catch(() => "told");
    program.child.kill("SIGTERM");
    await delay(10);
    program.child.kill("SIGTERM");
    await program.exited();
    expect(await stream).toBe("told");
    await collect(home.path, runtime);
    expect(await lookAtHome()).toEqual(before);
  });
});

async function startService(home: string, runtime: string) {
  const apiKey = `e2b_${randomBytes(20).toString("hex")}`;
  const flags = ["serve", "--home", home, "--port", "0", "--runtime", runtime];
  const program = startProgram(flags, { SANDBOX_MCP_API_KEY: apiKey });
  for await (const text of createInterface({ input: program.stdout })) {
    const url = /^listening on (http\S+)$/.exec(text)?.[1];
    if (url !== undefined)
      return { program, url, options: { apiKey, apiUrl: url, sandboxUrl: url } };
  }
  throw new Error(`serve ended before it listened:\n${program.stderr()}`);
}

/** What a service leaves on purpose goes with the next one, or with this. */
async function collect(home: string, runtime: string): Promise<void> {
  const gc = startProgram(["gc", "--home", home, "--runtime", runtime]);
  assert.equal(await gc.exited(), 0, gc.stderr());
}
