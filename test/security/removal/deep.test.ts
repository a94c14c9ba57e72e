/** E45: what a program inside can make so deep that no path names it, in a real sandbox. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openOrdinaryUser } from "../../support/ordinary-user.ts";
import { attackPlaces, IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

/** By the number of folders, or by the length of their names. */
const [LEVELS, NAME] = IS_WHOLE_RUN ? [3_200, "d"] : [40, "d".repeat(200)];
const DEEP = `import os
for level in range(${LEVELS}):
    os.mkdir("${NAME}"); os.chdir("${NAME}"); open("f", "w").close()`;

describe.each(attackPlaces())("on $name", (place) => {
  let stack: AsyncDisposableStack;
  let serve: TestServe;
  let options: SandboxOpts;

  beforeAll(async () => {
    stack = new AsyncDisposableStack();
    const account = place.isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
    serve = stack.use(await startServe(["--runtime", place.runtime, "--pool", "0"], { account }));
    options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
  });

  afterAll(async () => stack.disposeAsync());

  test("E45 a deep tree fails a snapshot by name, is removed by a call, and goes with its sandbox", async () => {
    const sandbox = await Sandbox.create("base", options);
    const dig = `mkdir deep && cd deep && python3 -c '${DEEP}'`;
    await sandbox.commands.run(dig);
    const layers = async () => (await readdir(join(serve.home, "layers"))).toSorted();
    const before = await layers();
    await expect(sandbox.createSnapshot()).rejects.toThrow("too long for a snapshot");
    expect(await layers()).toEqual(before);
    expect((await sandbox.commands.run("echo alive")).stdout).toBe("alive\n");
    await sandbox.files.remove("/home/user/deep");
    expect(await sandbox.files.exists("/home/user/deep")).toBe(false);
    await expect(sandbox.createSnapshot()).resolves.toMatchObject({});
    await sandbox.commands.run(dig);
    await sandbox.kill();
    expect(await readdir(join(serve.home, "instances/serve/s"))).toEqual([]);
  });
});
