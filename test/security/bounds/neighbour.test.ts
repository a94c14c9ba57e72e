/** R18, R9: what a neighbour's calls take beside a sandbox that does its worst, as figures. */

import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { begin, openRpcSandbox, type RpcSandbox } from "../../support/clients/rpc-sandbox.ts";
import { endChild } from "../../support/end-child.ts";
import { BOMBS, type Bomb } from "../../support/hostile/bombs.ts";
import { measureNeighbour } from "../../support/hostile/neighbour.ts";
import { openOrdinaryUser } from "../../support/ordinary-user.ts";
import { tellFigures } from "../../support/run/figures.ts";
import { attackPlaces, IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const OUTSIDE_BOMB = resolve(import.meta.dirname, "../../support/hostile/outside-bomb.ts");
const FLAGS = ["--pool", "0", "--disk-mb", "256", "--memory-mb", "256", "--pids", "256"];
/** A call that takes longer has been held up by its neighbour, whatever else the machine does. */
const MAX_CALL_MS = 15_000;
const ROUNDS = IS_WHOLE_RUN ? 3 : 1;
const CALLS = IS_WHOLE_RUN ? 40 : 15;
/** Two that need nothing but the service stand for all in an ordinary run. */
const SHORT_LIST = ["forks", "output that is read"];

describe.each(attackPlaces())("on $name", ({ runtime, isRootless }) => {
  const stack = new AsyncDisposableStack();
  let serve: TestServe;
  let neighbour: RpcSandbox;

  beforeAll(async () => {
    const account = isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
    serve = stack.use(await startServe(["--runtime", runtime, ...FLAGS], { account }));
    neighbour = stack.use(await openRpcSandbox(serve));
  });

  afterAll(async () => stack.disposeAsync());

  const bombs = BOMBS.filter(
    ({ name, needsLimits = false }) =>
      (IS_WHOLE_RUN || SHORT_LIST.includes(name)) && !(isRootless && needsLimits),
  );

  test.for(bombs)("R18 the calls of a neighbour beside a bomb: $name", async (bomb, context) => {
    const { files } = neighbour.clients({ useBinaryFormat: false });
    const figures = await measureNeighbour({
      bomb: bomb.name,
      call: async () => files.stat({ path: "/etc/passwd" }),
      ignite: async () => ignite(serve, bomb),
      rounds: ROUNDS,
      calls: CALLS,
    });
    tellFigures(context, figures);
    expect(figures.beside.max).toBeLessThan(MAX_CALL_MS);
  });
});

/** In a sandbox of its own; both end together. */
async function ignite(serve: TestServe, { inside, outside }: Bomb): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const sandbox = stack.use(await openRpcSandbox(serve));
  const { processes } = sandbox.clients({ useBinaryFormat: false });
  // Its stream breaks when its sandbox ends.
  if (inside !== undefined) await begin(processes, inside);
  if (outside !== undefined) {
    const words = [OUTSIDE_BOMB, outside, serve.url, JSON.stringify(sandbox.headers)];
    const program = spawn(process.execPath, words, { stdio: "ignore" });
    stack.defer(() => endChild(program));
  }
  return stack.move();
}
