/**
 * Pauses, connects, snapshots, forks, timeouts, traffic, kills of the service and restarts of everything
 * in random order around moves of memory to disk: the program goes on, with memory and files of one moment.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import {
  expectGoesOn,
  LEDGER_PORT,
  pauseOf,
  readLedger,
  startLedger,
  type Ledger,
} from "../../support/faults/ledger.ts";
import { rebootHome } from "../../support/faults/sandbox-reboot.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const runtime = gvisorRuntime();
const { isWhole, random } = faultRun();
const ROUNDS = Number(process.env["MOVE_ROUNDS"] ?? (isWhole ? 150 : 12));
const LIMIT_MS = 60_000 + ROUNDS * 40_000;
const MAX_WAIT_MS = 1_500;
/** Of calls that come in the middle of others; 503 is a daemon whose connection was cut. */
const ALLOWED = [200, 201, 204, 404, 409];

interface World {
  readonly home: FaultHome;
  readonly id: string;
  before: Ledger;
}

type Act = (world: World) => Promise<number | undefined>;

const post =
  (route: string, body: object): Act =>
  async ({ home, id }) =>
    (await home.call("POST", `/sandboxes/${id}/${route}`, body))?.status;

const idsSchema = z.array(z.object({ sandbox: z.object({ sandboxID: z.string() }).optional() }));

const ACTS: Readonly<Record<string, Act>> = {
  pause: post("pause", {}),
  connect: post("connect", { timeout: 3600 }),
  resume: post("resume", { timeout: 3600 }),
  timeout: post("timeout", { timeout: 0 }),
  traffic: async ({ home, id }) => {
    const headers = { "e2b-sandbox-id": id, "e2b-sandbox-port": `${LEDGER_PORT}` };
    const reply = await fetch(home.client().sandboxUrl, { headers }).catch(() => undefined);
    await reply?.text().catch(() => "");
    // A pause may cut it.
    return reply?.status === 502 ? 200 : reply?.status;
  },
  snapshot: async ({ home, id }) => {
    const answer = await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
    await home.call("DELETE", "/templates/shot");
    return answer?.status;
  },
  fork: async ({ home, id }) => {
    const answer = await home.call("POST", `/sandboxes/${id}/fork`, { count: 1, timeout: 60 });
    const forks = idsSchema.safeParse(answer?.body).data ?? [];
    for (const { sandbox } of forks) {
      if (sandbox !== undefined) await home.call("DELETE", `/sandboxes/${sandbox.sandboxID}`);
    }
    return answer?.status;
  },
};
const NAMES = Object.keys(ACTS);

async function act(world: World, name: string): Promise<void> {
  const status = await ACTS[name]?.(world);
  if (!ALLOWED.includes(status ?? 0)) throw new Error(`${name} was answered with ${status}`);
}

async function killDuring(world: World, names: readonly string[]): Promise<void> {
  const { home } = world;
  const calls = names.map(async (name) => ACTS[name]?.(world).catch(() => undefined));
  await sleep(random.below(MAX_WAIT_MS));
  await home.stop("SIGKILL");
  await Promise.all(calls);
  await home.start();
}

async function rebootOnDisk(world: World): Promise<void> {
  const { home, id } = world;
  if ((await pauseOf(home, id)).pausedMemory !== "disk") return;
  await rebootHome(home);
  await home.start();
}

async function check(world: World): Promise<void> {
  const sandbox = await expectGoesOn(world.home, world.id, world.before);
  world.before = await readLedger(sandbox);
}

async function round(world: World): Promise<string> {
  const some = Array.from({ length: 1 + random.below(4) }, () => random.pick(NAMES));
  const kind = random.pick([
    "one",
    "one",
    "together",
    "together",
    "kill",
    "reboot",
    "wait",
    "check",
  ]);
  if (kind === "one") await act(world, some[0] ?? "pause");
  if (kind === "together") await Promise.all(some.map(async (name) => act(world, name)));
  if (kind === "kill") await killDuring(world, some);
  if (kind === "reboot") await rebootOnDisk(world);
  if (kind === "wait") await sleep(random.below(MAX_WAIT_MS));
  if (kind === "check") await check(world);
  return `${kind} ${some.join(" ")}`;
}

test.skipIf(runtime === undefined)(
  "R2 random orders around moves of memory lose nothing",
  { timeout: LIMIT_MS },
  async () => {
    const level = ["--runtime", runtime ?? "", "--require-isolation", "gvisor", "--pool", "0"];
    await using home = await openFaultHome([...level, "--pause-to-disk", "0"]);
    await home.start();
    const lifecycle = { onTimeout: "pause", autoResume: true } as const;
    const sandbox = await startLedger(home, { lifecycle });
    const world: World = { home, id: sandbox.sandboxId, before: await readLedger(sandbox) };
    const done: string[] = [];
    try {
      for (let count = 0; count < ROUNDS; count += 1) done.push(await round(world));
      const { word, count } = world.before;
      await check(world);
      expect([world.before.word, world.before.count > count]).toEqual([word, true]);
    } catch (error) {
      const orders = done.slice(-12).join("\n");
      throw new Error(`after\n${orders}\n${home.stderr().slice(-6_000)}`, { cause: error });
    }
  },
);
