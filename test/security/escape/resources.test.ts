/** E26 to E29: what is counted ends at the sandbox's share, and its neighbour does not notice. */

import assert from "node:assert/strict";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Container } from "../../../src/engine/engine.ts";
import { openLimits } from "../../support/engine/container-limits.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { attackLayers, type AttackLayers } from "../../support/hostile/attack-layer.ts";
import {
  attackCommand,
  checkAlive,
  parseOutcomes,
  TABLES,
  type Outcomes,
} from "../../support/hostile/attack-range.ts";
import { startWeakHost } from "../../support/hostile/weak-runtime.ts";
import { attackedRuntimes, hasOwnKernel, IS_WHOLE_RUN } from "../../support/runtimes.ts";

const SHARED_LIMITS = { memoryMb: 128, diskMb: 64, pids: 128 };
/** What a kernel of its own holds of its processes counts too. */
const OWN_LIMITS = { memoryMb: 512, diskMb: 64, pids: 128 };
const BYTES_PER_MB = 1024 * 1024;
const USERS = ["root", "user"];
/** A fork bomb goes on for so long. */
const BOMB_SECONDS = IS_WHOLE_RUN ? 30 : 1;
/** In another kernel a fork takes longer. */
const OWN_BOMB_SECONDS = Math.max(BOMB_SECONDS, 15);
const AGAIN_LIMIT_MS = 5_000;
const FATE_LIMIT_MS = 30_000;
/** Blocks of the disk's own file system, and what it rounds up. */
const DISK_OVERHEAD = 1.05;
const HOLD_SECONDS = 60;
/** What the kernel counts for the maker of a user namespace too. */
const SHORT_LIST = ["inotify", "queues"];
/** All of these are one per sandbox, not one per process. */
const SHARED_TABLES = ["inotify", "terminals"];

describe.each(attackedRuntimes())("on %s", (runtime) => {
  const isOwn = hasOwnKernel(runtime);
  const LIMITS = isOwn ? OWN_LIMITS : SHARED_LIMITS;
  let layers: AttackLayers;
  let host: OciHost;
  let container: Container;
  let neighbour: Container;

  const littleOutcomes = isOwn ? { ...everyTableOk, ...NOT_IN_OWN } : everyTableOk;
  const isEndless = (table: string) => isOwn && ENDLESS_IN_OWN.has(table);

  const start = async (on = host, limits = LIMITS): Promise<Container> => {
    const made = await on.create({ layers: layers.list, limits });
    await initDaemon(made);
    return made;
  };

  beforeAll(async () => {
    layers = await attackLayers();
    host = await startOciHost(runtime);
    [container, neighbour] = [await start(), await start()];
  });

  afterEach(async () => checkAlive(async (command) => runInside(neighbour, command)));

  afterAll(async () => {
    await host[Symbol.asyncDispose]();
    await layers[Symbol.asyncDispose]();
  });

  if (isOwn) describeOwnBombs();
  else describeBombs();

  test.for(USERS)("E28 the disk of %s ends at its size, on the host too", async (user) => {
    const words = [`/var/tmp/${user}`, 2 * LIMITS.diskMb];
    const { sparse, ...others } = await attack(container, { id: "E28", words }, user);
    expect(others).toEqual({ fill: "ENOSPC", fallocate: "ENOSPC", inodes: "ENOSPC" });
    // Another kernel takes the length of a file for its blocks; what counts is the disk.
    expect(sparse).toMatch(isOwn ? /^(empty|\d+ blocks)$/ : /^empty$/);
    const { blocks } = await stat(join(host.directoryOf(container.id), "disk.img"));
    expect(blocks * 512).toBeLessThanOrEqual(LIMITS.diskMb * BYTES_PER_MB * DISK_OVERHEAD);
  });

  test("E28 control: a folder without a disk of its own takes it all", async () => {
    const source = join(host.home, "shared");
    await mkdir(source);
    const shared = await host.create({
      layers: layers.list,
      limits: LIMITS,
      binds: [{ source, path: "/srv/shared" }],
    });
    await initDaemon(shared);
    const words = ["/srv/shared/full", 2 * LIMITS.diskMb, "fill", "fallocate"];
    const outcomes = await attack(shared, { id: "E28", words }, "root");
    expect(outcomes).toEqual({ fill: "ok", fallocate: "ok" });
    await shared[Symbol.asyncDispose]();
  });

  test.for(USERS)("E29 tables that %s uses up are not those of the neighbour", async (user) => {
    for (const table of (IS_WHOLE_RUN ? TABLES : SHORT_LIST).filter((name) => !isEndless(name))) {
      await using held = await hold(container, table, user);
      const outcomes = await attack(neighbour, { id: "E29-little" }, "root");
      expect({ table, held: held.count, outcomes }).toMatchObject({ outcomes: littleOutcomes });
    }
  });

  // A kernel of its own takes memory for more; nobody else has its tables.
  test.for(isOwn ? [] : SHARED_TABLES)(
    "E29 control: %s are used up for the sandbox itself",
    async (table) => {
      await using held = await hold(container, table, "user");
      expect(held.count).toBeGreaterThan(0);
      const outcomes = await attack(container, { id: "E29-little" }, "user");
      expect(outcomes[table]).not.toBe("ok");
    },
  );

  /** Where the machine ends a process for its memory, that is one of a program or the kernel itself. */
  function describeOwnBombs(): void {
    // Each process of this kernel has memory of its own.
    const limits = { ...LIMITS, memoryMb: 1_024, pids: 48 };

    test.for(USERS)(
      "E26 forks of %s end at the limit, while the neighbour answers",
      async (user) => {
        await using bombed = await start(host, limits);
        const words = [OWN_BOMB_SECONDS, 4 * limits.pids];
        const bomb = attack(bombed, { id: "E26", words }, user);
        await checkAlive(async (command) => runInside(neighbour, command));
        const { processes } = await bomb;
        expect(Number(processes)).toBeGreaterThan(limits.pids / 2);
        expect(Number(processes)).toBeLessThan(limits.pids);
        await expectFate(bombed);
      },
    );

    test("E26 control: without the limit they go on", async () => {
      const config = "config.process.rlimits = [];";
      await using weak = await startWeakHost(runtime, { config });
      const open = await start(weak, limits);
      const most = limits.pids + 10;
      const words = [OWN_BOMB_SECONDS, most];
      expect(await attack(open, { id: "E26", words }, "root")).toEqual({ processes: String(most) });
    });

    test.for(USERS)("E27 memory of %s ends at the limit, and no other sandbox", async (user) => {
      await using bombed = await start();
      const words = [LIMITS.memoryMb + 64];
      const heap = await attack(bombed, { id: "E27", words }, user).then(
        (outcomes) => outcomes["heap"],
        () => "ended",
      );
      expect(heap).not.toBe("ok");
      await expectFate(bombed);
    });

    test.for(USERS)(
      "E29 timers of %s end at the memory limit, and no other sandbox",
      async (user) => {
        for (const table of ENDLESS_IN_OWN) {
          await using bombed = await start();
          const bomb = attack(bombed, { id: "E29", words: [table, 0] }, user).then(
            (outcomes) => outcomes[table],
            () => "ended",
          );
          await checkAlive(async (command) => runInside(neighbour, command));
          // A version that counts them refuses in the end.
          expect([table, await bomb]).toEqual([
            table,
            expect.stringMatching(/^(ended|[1-9]\d* E[A-Z]+)$/),
          ]);
          await expectFate(bombed);
          expect(await attack(neighbour, { id: "E29-little" }, "root")).toEqual(littleOutcomes);
        }
      },
    );

    test("E27 control: without the limit it goes on", async () => {
      await using open = await start(host, limits);
      const words = [LIMITS.memoryMb + 64];
      expect(await attack(open, { id: "E27", words }, "root")).toMatchObject({ heap: "ok" });
    });
  }

  function describeBombs(): void {
    test.for(USERS)(
      "E26 forks of %s end at the limit, while the neighbour answers",
      async (user) => {
        const bomb = attack(container, { id: "E26", words: [BOMB_SECONDS, 4 * LIMITS.pids] }, user);
        await checkAlive(async (command) => runInside(neighbour, command));
        const { processes } = await bomb;
        expect(Number(processes)).toBeGreaterThan(LIMITS.pids / 2);
        expect(Number(processes)).toBeLessThan(LIMITS.pids);
      },
    );

    test("E26 control: without the limit they go on", async () => {
      await using weak = await startWeakHost(runtime, {
        config: "delete config.linux.resources.pids; config.process.rlimits = [];",
      });
      const open = await start(weak, { ...LIMITS, memoryMb: 1_024 });
      const most = LIMITS.pids + 50;
      const words = [BOMB_SECONDS, most];
      expect(await attack(open, { id: "E26", words }, "root")).toEqual({ processes: String(most) });
    });

    test.for(USERS)("E27 memory of %s ends at the limit, and is usable again", async (user) => {
      const words = [LIMITS.memoryMb + 64];
      const outcomes = await attack(container, { id: "E27", words }, user);
      expect(outcomes).toEqual({ heap: "SIGKILL", tmpfs: "ENOSPC" });
      const { read } = await openLimits(container.id);
      const peak = Number(await read("memory", "memory.max_usage_in_bytes", "memory.peak"));
      expect(peak).toBeLessThanOrEqual(LIMITS.memoryMb * BYTES_PER_MB);
      await expect
        .poll(async () => (await runInside(container, "echo again")).stdout, {
          timeout: AGAIN_LIMIT_MS,
        })
        .toBe("again\n");
    });

    test("E27 control: without the limit it goes on", async () => {
      await using weak = await startWeakHost(runtime, {
        // The engine's own trial looks for the limit in the smaller container that it makes.
        config: "if (config.linux.resources.pids.limit > 32) delete config.linux.resources.memory;",
      });
      const words = [LIMITS.memoryMb + 64];
      const outcomes = await attack(await start(weak), { id: "E27", words }, "root");
      expect(outcomes).toMatchObject({ heap: "ok" });
    });
  }
});

/** It serves again, or it has ended and says why. */
async function expectFate(bombed: Container): Promise<void> {
  let end: string | undefined;
  void bombed.exit.then(({ reason }) => (end = reason));
  const fate = async () =>
    end ?? runInside(bombed, "echo again").then(({ stdout }) => stdout.trim(), String);
  await expect.poll(fate, { timeout: FATE_LIMIT_MS }).toMatch(/^(again|out of memory)$/);
}

/** It counts none of these: their memory is their limit. */
const ENDLESS_IN_OWN = new Set(["timers"]);
/** It locks no device, whoever else does. */
const NOT_IN_OWN = { locks: "ENOLCK" };
const everyTableOk = Object.fromEntries(TABLES.map((name) => [name, "ok"]));

interface ResourceAttack {
  readonly id: string;
  readonly words?: readonly (string | number)[];
}

async function attack(target: Container, what: ResourceAttack, user: string): Promise<Outcomes> {
  const command = attackCommand({ program: "resources", ...what }).join(" ");
  const { stdout, stderr } = await runInside(target, command, user);
  assert.notEqual(stdout, "", stderr);
  return parseOutcomes(stdout);
}

/** Uses a table up until the end of the block; how much there was of it, if it was told. */
async function hold(target: Container, table: string, user: string) {
  await runInside(target, "rm -f /dev/shm/held");
  let isOver = false;
  const words = [table, HOLD_SECONDS];
  const end = () => {
    isOver = true;
  };
  // It is killed in the end, and then has nothing to say.
  const ended = attack(target, { id: "E29", words }, user).then(end, end);
  let told = "";
  await expect
    .poll(async () => {
      // The memory of the sandbox may have ended first; then there is nothing to be told.
      told = (await runInside(target, "cat /dev/shm/held")).stdout;
      return isOver || told !== "";
    })
    .toBe(true);
  return {
    count: Number(told.split(" ")[0]),
    [Symbol.asyncDispose]: async () => {
      await runInside(target, "pkill -9 -f resources[.]py; rm -rf /var/tmp/watched-*");
      await ended;
    },
  };
}
