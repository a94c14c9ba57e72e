/**
 * A build of ten minutes, followed to its end by bounded waits as an agent does: it reads nothing
 * but replies, and extends the life of its sandbox when one of them says that this is short. The
 * minutes pass on a clock that the test moves.
 */

import { open } from "node:fs/promises";
import { expect, test } from "vitest";
import { createFakeClock } from "../../support/fake-clock.ts";
import { read } from "../../support/mcp/agent.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";

const MINUTES = 10;
const MINUTE_MS = 60_000;
const STEP_MS = 2_000;
/** Each call waits for at most 50 s. */
const REPLY_DUE_MS = 56_000;
const MAX_CALLS = 100;
const BUILD =
  'while read -r step; do echo "compiled $step"; [ "$step" = 10 ] && exit 3; done < gate';

test("a build of ten minutes is followed to its end, and its sandbox kept alive", async () => {
  const clock = createFakeClock(Date.now());
  await using world = await startMcpWorld(clock);
  const startMs = clock.now();
  const sandbox = { sandbox_id: await world.createSandbox() };
  const prepare = { ...sandbox, cmd: "mkfifo gate", cwd: world.folder };
  expect((await world.call("run_process", prepare)).text).toMatch(/^exit_code: 0/);
  // Open for both, so that neither side waits for the other.
  await using gate = await open(`${world.folder}/gate`, "r+");
  let step = 0;
  const calls: { tool: string; ms: number }[] = [];
  const heartbeats: (string | undefined)[] = [];

  /** The text of a call during which time goes by and the build goes on. */
  async function wait(tool: string, input: object): Promise<string> {
    const calledMs = clock.now();
    // What the build says of it ends the call; the clock stands until that has come.
    let isWritten = false;
    const state = { isOver: false };
    const settings = {
      onprogress: ({ message }: { message?: string | undefined }) => heartbeats.push(message),
    };
    const calling = world.call(tool, { ...sandbox, ...input }, settings).finally(() => {
      state.isOver = true;
    });
    await expect
      .poll(
        async () => {
          // The wait of a start begins with the process: the clock stands until then.
          const isStarting = tool === "run_process" && heartbeats.length === 0;
          if (isStarting || isWritten) return state.isOver;
          // By then its reply is on its way, which takes time of a real clock.
          if (clock.now() - calledMs >= REPLY_DUE_MS) return state.isOver;
          await clock.advance(STEP_MS);
          if (step < MINUTES && clock.now() - startMs >= (step + 1) * MINUTE_MS) {
            step += 1;
            await gate.write(`${step}\n`);
            isWritten = true;
          }
          return state.isOver;
        },
        { interval: 1, timeout: 20_000 },
      )
      .toBe(true);
    calls.push({ tool, ms: clock.now() - calledMs });
    return (await calling).text;
  }

  const build = { cmd: BUILD, cwd: world.folder };
  let text = await wait("run_process", build);
  let output = text;
  let extensions = 0;
  while (text.startsWith("status: running") && calls.length < MAX_CALLS) {
    if (text.includes("time_left:")) {
      const [tool = ""] = /set_timeout/.exec(text) ?? [];
      const { isError } = await world.call(tool, { ...sandbox, timeout_seconds: 300 });
      extensions += isError ? 0 : 1;
    }
    const process_id = read(text, /process_id: (p_\d+)/);
    const cursor = Number(read(text, /next_cursor: (\d+)/));
    text = await wait("get_process_output", { process_id, cursor, wait_seconds: 50 });
    output += text;
  }
  expect(text).toMatch(/^exit_code: 3 /);
  const steps = [...output.matchAll(/^compiled (\d+)$/gm)].map(([, number]) => Number(number));
  expect(steps).toEqual(Array.from({ length: MINUTES }, (_, index) => index + 1));
  expect(clock.now() - startMs).toBeGreaterThanOrEqual(MINUTES * MINUTE_MS);
  // Hosts give up after a minute.
  expect(Math.max(...calls.map(({ ms }) => ms))).toBeLessThan(MINUTE_MS);
  expect(extensions).toBeGreaterThan(1);
  expect(heartbeats.filter((message) => message === "still running").length).toBeGreaterThan(1);
});
