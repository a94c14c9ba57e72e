/**
 * The attacks of `npm run security` on what is counted, inside a Pod: each ends at the Pod's share,
 * and the neighbour on the same node does not notice.
 */

import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { CommandExitError, Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import {
  attackCommand,
  attackFiles,
  checkAlive,
  parseOutcomes,
  TABLES,
  type Outcomes,
} from "../../support/hostile/attack-range.ts";
import { POD_PIDS } from "../cluster/node-config.ts";
import { eventually, type World } from "../world.ts";
import { clientOf } from "./faults.ts";
import { createFrom, imageOf, request } from "./images.ts";

const USERS = ["root", "user"] as const;
const BOMB_SECONDS = 15;
/** Each table is held for at most so long; its holder is killed before. */
const HOLD_SECONDS = 120;
/**
 * Counted by node: no container runtime gives the terminals of a container a number of their own, and
 * a Pod has no field for one. What is listed and refused is a fault of the list.
 */
const OF_THE_NODE = ["terminals"];
/** A kubelet looks at the disks of its Pods every ten seconds, and containerd measures them as often. */
const EVICTION_MS = 120_000;

interface Place {
  readonly world: World;
  readonly sandbox: Sandbox;
  readonly neighbour: Sandbox;
}

export async function runLimits(world: World): Promise<void> {
  const [sandbox, neighbour] = await createPair(world);
  const place = { world, sandbox, neighbour };
  for (const user of USERS) {
    await world.check(`limit: E25 what ${user} kills is of its own Pod`, () =>
      killAll(place, user),
    );
    await world.check(`limit: E26 forks of ${user} end at podPidsLimit`, () => bomb(place, user));
    await world.check(`limit: E27 memory of ${user} ends at the Pod's`, () =>
      useMemory(place, user),
    );
    for (const table of TABLES) {
      await world.check(`limit: E29 ${table} used up by ${user}`, () =>
        useTable(place, table, user),
      );
    }
  }
  // Last: the sandbox ends by it.
  await world.check("limit: E28 a Pod beyond its disk is evicted, no other", () => fillDisk(place));
  for (const each of [sandbox, neighbour]) await each.kill();
}

/** Two sandboxes on one node, with the programs of the attacks. */
async function createPair(world: World): Promise<readonly [Sandbox, Sandbox]> {
  const first = await createFrom(world, "base");
  const { node } = await imageOf(world, first.sandboxId);
  const second = await eventually(async () => {
    const one = await createFrom(world, "base");
    if ((await imageOf(world, one.sandboxId)).node === node) return one;
    await one.kill();
    throw new Error("on the other node");
  });
  for (const sandbox of [first, second]) {
    for (const { source, path } of attackFiles()) {
      await sandbox.files.write(path, await readFile(source, "utf8"), { user: "root" });
    }
  }
  return [first, second];
}

interface ResourceAttack {
  readonly id: string;
  readonly words?: readonly (string | number)[];
}

async function attack(sandbox: Sandbox, what: ResourceAttack, user: string): Promise<Outcomes> {
  const command = attackCommand({ program: "resources", ...what }).join(" ");
  return parseOutcomes((await sandbox.commands.run(command, { user, timeoutMs: 0 })).stdout);
}

/** @throws Error unless another Pod on the node answers within a second. */
async function checkNeighbour({ neighbour }: Place): Promise<void> {
  await checkAlive(async (command) => neighbour.commands.run(command));
}

async function killAll(place: Place, user: string): Promise<string> {
  const { sandbox, neighbour, world } = place;
  const watched = await neighbour.commands.run("exec sleep 600", { background: true });
  const daemon = await sandbox.commands.run("pgrep -f daemon.cjs | grep -vx 1", { user: "root" });
  const commands = ["kill -9 -1", `kill -9 ${daemon.stdout.trim()}`, "kill -9 1"];
  for (const command of commands) {
    await sandbox.commands.run(command, { user }).catch(() => undefined);
    await eventually(async () => expectAnswer(sandbox));
  }
  const info = await Sandbox.getInfo(sandbox.sandboxId, clientOf(world.url, world.apiKey));
  const pids = (await neighbour.commands.list()).map(({ pid }) => pid);
  await watched.kill();
  if (info.state !== "running" || !pids.includes(watched.pid)) {
    throw new Error(`${info.state}; the neighbour has ${pids.join(" ")} of ${watched.pid}`);
  }
  return `answers after ${commands.join(", ")}`;
}

async function expectAnswer(sandbox: Sandbox): Promise<void> {
  const { stdout } = await sandbox.commands.run("echo back");
  if (stdout !== "back\n") throw new Error(stdout);
}

async function bomb(place: Place, user: string): Promise<string> {
  const exploding = attack(place.sandbox, { id: "E26", words: [BOMB_SECONDS, 4 * POD_PIDS] }, user);
  await Promise.all([exploding, delay(BOMB_SECONDS * 500).then(() => checkNeighbour(place))]);
  const processes = Number((await exploding)["processes"]);
  await eventually(async () => expectAnswer(place.sandbox));
  if (!(processes > POD_PIDS / 2 && processes < POD_PIDS)) throw new Error(String(processes));
  return `${processes} processes of ${POD_PIDS}`;
}

async function useMemory(place: Place, user: string): Promise<string> {
  const { memoryMB } = await Sandbox.getInfo(
    place.sandbox.sandboxId,
    clientOf(place.world.url, place.world.apiKey),
  );
  const outcomes = await attack(place.sandbox, { id: "E27", words: [memoryMB + 64] }, user);
  await eventually(async () => expectAnswer(place.sandbox));
  await checkNeighbour(place);
  const told = JSON.stringify(outcomes);
  if (outcomes["heap"] !== "SIGKILL" || outcomes["tmpfs"] !== "ENOSPC") throw new Error(told);
  return `${told} of ${memoryMB} MB`;
}

/** The table is full, or the memory that it takes has ended its holder: others have theirs. */
async function useTable(place: Place, table: string, user: string): Promise<string> {
  const { sandbox, neighbour } = place;
  await sandbox.commands.run("rm -f /dev/shm/held", { user: "root" });
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  const ended = attack(sandbox, { id: "E29", words: [table, HOLD_SECONDS] }, user).then(over, over);
  let told = "";
  await eventually(async () => {
    told = isOver ? "ended" : (await sandbox.commands.run("cat /dev/shm/held")).stdout;
    if (told === "") throw new Error("the table was not used up");
  }, EVICTION_MS);
  const outcomes = await attack(neighbour, { id: "E29-little" }, "root");
  await checkNeighbour(place);
  const command = "pkill -9 -f resources[.]py; ipcrm -a; rm -rf /var/tmp/watched-*";
  await sandbox.commands.run(command, { user: "root" }).catch((error: unknown) => {
    if (!(error instanceof CommandExitError)) throw error;
  });
  await ended;
  await eventually(async () => expectAnswer(sandbox));
  const lacking = Object.keys(outcomes).filter((name) => outcomes[name] !== "ok");
  const open = OF_THE_NODE.filter((name) => name === table);
  if (lacking.join() !== open.join()) {
    throw new Error(`${told.trim()}; the neighbour: ${JSON.stringify(outcomes)}`);
  }
  return `${told.trim()}${open.length > 0 ? ", open by design" : ""}`;
}

async function fillDisk(place: Place): Promise<string> {
  const { sandbox, world } = place;
  const options = clientOf(world.url, world.apiKey);
  const shown = await request(world, `GET /sandboxes/${sandbox.sandboxId}`);
  const { diskSizeMB } = z.object({ diskSizeMB: z.number() }).parse(shown);
  const begin = performance.now();
  const command = `head -c ${diskSizeMB + 64}M /dev/zero > /var/tmp/full`;
  await sandbox.commands.run(command, { timeoutMs: 0 }).catch(() => undefined);
  await eventually(async () => {
    const state = await Sandbox.getInfo(sandbox.sandboxId, options).then(
      (info) => info.state,
      () => "gone",
    );
    if (state !== "gone") throw new Error(`it is ${state}`);
  }, EVICTION_MS);
  await checkNeighbour(place);
  return `ended ${((performance.now() - begin) / 1000).toFixed(0)} s after it began to write ${diskSizeMB + 64} MB`;
}
