/**
 * The first run of a home whose disk is full, or becomes so at some step of it: what cannot be done
 * says why, nothing half-made is believed later, and once there is room the same home works.
 */

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { StepName } from "../../../src/common/steps.ts";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { openSmallDisk, type SmallDisk } from "../../support/faults/small-disk.ts";
import { createRandom, printedSeed, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

const SEED = printedSeed("first run on a full disk");
const CASES = IS_WHOLE_RUN ? 16 : 2;
const CASE_LIMIT_MS = 60_000;
const DISK_FULL = 507;
const MIB = 1024 ** 2;
/** From too little for anything to enough for most. */
const MAX_LEFT_BITS = 11;
/** Before anything is begun, or with a part of it done: the daemon's folder first, then the layer. */
const STARTING: readonly StepName[] = ["daemon.begun", "daemon.copied", "daemon.compiled"];
const CREATING: readonly StepName[] = ["layer.begun", "layer.synced", "launch.prepared"];
const POINTS = ["nothing", ...STARTING, ...CREATING] as const;
const CREATE = { templateID: "host", timeout: 600, secure: false };

interface Case {
  readonly point: StepName | "nothing";
  readonly leftBytes: number;
}

const NOTHING_LEFT: Case = { point: "nothing", leftBytes: 0 };
/** What a reader needs in order to know what to do. */
const CLEAR = /no space left|ENOSPC|disk of \S+ (?:is full|has \d+ MiB left)/i;

let disk: SmallDisk;
let home: FaultHome;
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  const flags = ["--pool", "0", "--allow-host-template"];
  home = stack.use(
    await openFaultHome(flags, async () => {
      disk = await openSmallDisk();
      return disk;
    }),
  );
});
afterAll(() => stack.disposeAsync());

/** As a new home is, but for the base template. */
async function clear(): Promise<void> {
  await disk.free();
  const names = (await readdir(disk.path)).filter(
    (name) => !["layers", "lost+found"].includes(name),
  );
  for (const name of names) await rm(join(disk.path, name), { recursive: true });
  const layers = await readdir(join(disk.path, "layers"));
  for (const name of layers.filter((layer) => !layer.startsWith("base-"))) {
    await rm(join(disk.path, "layers", name), { recursive: true });
  }
}

/** Does something while the disk becomes full at the point. */
async function fillAt({ point, leftBytes }: Case, work: () => Promise<void>): Promise<void> {
  if (point === "nothing") {
    await disk.fill(leftBytes);
    return work();
  }
  await home.plan({ step: point, action: "hold" });
  const done = work();
  done.catch(() => undefined);
  await home.hit();
  await disk.fill(leftBytes);
  await home.release();
  return done;
}

/** Starts the service and creates a sandbox; what was said where that failed. */
async function firstRun(said: string[]): Promise<void> {
  try {
    await home.start();
  } catch (error) {
    said.push(String(error));
    return;
  }
  const answer = await home.call("POST", "/sandboxes", CREATE);
  if (answer?.status === 201) return;
  expect(answer).toMatchObject({ status: DISK_FULL });
  said.push(JSON.stringify(answer?.body));
}

function chooseCase(random: Random): Case {
  const leftBytes = random.once(3) ? 0 : 2 ** random.below(MAX_LEFT_BITS) * MIB;
  return { point: random.pick(POINTS), leftBytes };
}

/** Whether the first run failed. */
async function runCase({ point, leftBytes }: Case): Promise<boolean> {
  const text = `FUZZ_SEED=${SEED}: ${leftBytes} bytes left from ${point} on`;
  const said: string[] = [];
  await fillAt({ point, leftBytes }, async () => firstRun(said));
  for (const one of said) {
    expect(`${text}: ${one}`).toMatch(CLEAR);
    // What is missing is room, and no program.
    expect(`${text}: ${one}`).not.toContain("apt-get");
  }
  await disk.free();
  // In the same process where there is one: what it remembers must not be wrong either.
  if (!home.isRunning()) await home.start();
  const answer = await home.call("POST", "/sandboxes", CREATE);
  expect(answer?.status, `${text}: ${said.join()}, then ${JSON.stringify(answer)}`).toBe(201);
  const { sandboxID }: { sandboxID: string } = JSON.parse(JSON.stringify(answer?.body));
  expect(await home.enter(sandboxID, "/health")).toMatchObject({ status: 204 });
  for (const id of await sandboxIds()) await home.call("DELETE", `/sandboxes/${id}`);
  await home.stop("SIGTERM");
  const made = [
    ...(await readdir(join(disk.path, "daemon"))),
    ...(await readdir(join(disk.path, "layers"))),
  ];
  expect({ text, left: made.filter((name) => name.endsWith(".part")) }).toEqual({ text, left: [] });
  return said.length > 0;
}

test(
  `E58 the first run on a full disk says so, and works once there is room, seed ${SEED}`,
  { timeout: CASES * CASE_LIMIT_MS },
  async (context) => {
    const random = createRandom(SEED);
    let failed = 0;
    for (let count = 0; count < CASES; count += 1) {
      await clear();
      const one = count === 0 ? NOTHING_LEFT : chooseCase(random);
      if (await runCase(one)) failed += 1;
    }
    expect(failed).toBeGreaterThan(0);
    tellCells(context, CASES);
  },
);

async function sandboxIds(): Promise<readonly string[]> {
  const answer = await home.call("GET", "/v2/sandboxes?state=running,paused&limit=100");
  return [...JSON.stringify(answer?.body).matchAll(/"sandboxID":"([^"]+)"/g)].map(
    ([, id = ""]) => id,
  );
}
