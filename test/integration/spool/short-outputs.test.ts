/** Many short outputs: what they may take of the disk is not what they take. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { isRootless } from "../../../src/common/privilege.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { startSpools } from "../../../src/spool/spools.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MIB = 1024 * 1024;
const LIMITS = { fileBytes: MIB, headBytes: 2 * MIB, tailBytes: 3 * MIB };
const SANDBOX = "i1";

async function startSmall(root: string, sandboxBytes = 6 * MIB) {
  const limits = { sandboxBytes, homeBytes: 100 * MIB };
  const options = { root, clock: createSystemClock(), log: createSilentLog(), limits };
  const spools = startSpools(options);
  const begin = async (pid: number) => {
    const writer = spools.create({ sandboxId: SANDBOX, name: `p_${pid}` }, LIMITS);
    await writer?.append("stdout", Buffer.from(`output of ${pid}`));
    await writer?.flush();
    return writer;
  };
  return {
    begin,
    /** The processes of which there is output. */
    async kept() {
      const folders = await readdir(join(root, SANDBOX));
      const withOutput = await Promise.all(
        folders.map(async (name) => ({
          pid: Number(/^p_([0-9]+)\./.exec(name)?.[1]),
          has: (await readdir(join(root, SANDBOX, name))).some((file) => /^0+$/.test(file)),
        })),
      );
      return withOutput.flatMap(({ pid, has }) => (has ? [pid] : [])).toSorted((a, b) => a - b);
    },
    [Symbol.asyncDispose]: () => spools[Symbol.asyncDispose](),
  };
}

test("one after another takes nothing from those that have ended", async () => {
  await using folder = await makeTempFolder();
  await using spools = await startSmall(folder.path);
  const pids = Array.from({ length: 40 }, (_, index) => index);
  for (const pid of pids) {
    const writer = await spools.begin(pid);
    await writer?.close({ endedAtMs: Date.now() });
  }
  expect(await spools.kept()).toEqual(pids);
});

test("many at once take nothing from those that have ended", async () => {
  await using folder = await makeTempFolder();
  await using spools = await startSmall(folder.path);
  const pids = Array.from({ length: 40 }, (_, index) => index);
  for (const pid of pids.slice(0, 5)) {
    const writer = await spools.begin(pid);
    await writer?.close({ endedAtMs: Date.now() });
  }
  const open = await Promise.all(pids.slice(5).map(async (pid) => spools.begin(pid)));
  expect(await spools.kept()).toEqual(pids);
  await Promise.all(open.map(async (writer) => writer?.close({ endedAtMs: Date.now() })));
  expect(await spools.kept()).toEqual(pids);
});

test.skipIf(isRootless())("outputs are kept where little more is free than must be", async () => {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  await runProgram(["mount", "-t", "tmpfs", "-o", "size=1044m", "none", path]);
  stack.defer(async () => void (await runProgram(["umount", path])));
  const spools = stack.use(await startSmall(path, 100 * MIB));
  const pids = Array.from({ length: 40 }, (_, index) => index);
  for (const pid of pids) {
    const writer = await spools.begin(pid);
    await writer?.close({ endedAtMs: Date.now() });
  }
  expect(await spools.kept()).toEqual(pids);
});
