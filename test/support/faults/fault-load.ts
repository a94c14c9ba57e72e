/** Clients that make, pause, wake, copy and end sandboxes without rest, and what they were told. */

import type { Random } from "../random.ts";
import type { Fate } from "./fault-cases.ts";
import { listAll, make, type FaultHome } from "./fault-home.ts";

/** More would wait for each other on a small machine. */
const CLIENTS = 4;
const MAX_OWN = 2;

/** What may be true of a thing: two when its last change was not acknowledged. */
export interface Ledger {
  readonly sandboxes: Map<string, readonly Fate[]>;
  readonly snapshots: Map<string, readonly ("there" | "gone")[]>;
  /** Sandboxes whose creation was begun and never answered. */
  unanswered: number;
}

export function createLedger(): Ledger {
  return { sandboxes: new Map(), snapshots: new Map(), unanswered: 0 };
}

/** Runs until the service is gone; every answer is in the ledger then. */
export async function runLoad(home: FaultHome, ledger: Ledger, random: Random): Promise<void> {
  const clients = Array.from({ length: CLIENTS }, (_none, index) =>
    runClient({ home, ledger, random }, index),
  );
  await Promise.all(clients);
}

interface Load {
  readonly home: FaultHome;
  readonly ledger: Ledger;
  readonly random: Random;
}

async function runClient(load: Load, index: number): Promise<void> {
  const { ledger, random } = load;
  for (;;) {
    const own = [...ledger.sandboxes]
      .filter(([id, fates]) => ownerOf(id) === index && !fates.includes("gone"))
      .map(([id]) => id);
    const isOver =
      own.length < MAX_OWN && random.once(2)
        ? await makeOne(load, index)
        : await changeOne(load, random.pick([...own, ...snapshotsOf(ledger, index), "new"]), index);
    if (isOver) return;
  }
}

/** A sandbox belongs to one client, so that only that one's answers decide about it. */
function ownerOf(id: string): number {
  return (id.codePointAt(id.length - 1) ?? 0) % CLIENTS;
}

function snapshotsOf(ledger: Ledger, index: number): string[] {
  return [...ledger.snapshots]
    .filter(([name, fates]) => name.startsWith(`by${index}x`) && fates.includes("there"))
    .map(([name]) => name);
}

/** Whether the service is gone. */
async function makeOne({ home, ledger }: Load, _index: number): Promise<boolean> {
  ledger.unanswered += 1;
  const answer = await home.call("POST", "/sandboxes", {
    templateID: "base",
    timeout: 3600,
    secure: false,
  });
  if (answer === undefined) return true;
  ledger.unanswered -= 1;
  const id = /"sandboxID":"([^"]+)"/.exec(JSON.stringify(answer.body))?.[1];
  if (id !== undefined) ledger.sandboxes.set(id, ["running"]);
  return false;
}

async function changeOne(load: Load, what: string, index: number): Promise<boolean> {
  if (what === "new") return makeOne(load, index);
  if (what.startsWith("by")) return removeSnapshot(load, what);
  const { ledger, random } = load;
  const isPaused = ledger.sandboxes.get(what)?.includes("paused") ?? false;
  if (isPaused && !random.once(4)) return change(load, what, WAKE);
  const choice = random.below(8);
  if (choice < 2) return change(load, what, PAUSE);
  if (choice < 4) return change(load, what, HALT);
  if (choice === 4) return takeSnapshot(load, what, index);
  if (choice === 5) return fork(load, what);
  if (choice === 6) return change(load, what, EXPIRE);
  return change(load, what, KILL);
}

interface Change {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly fate: Fate;
}

const WAKE: Change = { method: "POST", path: "/connect", body: { timeout: 3600 }, fate: "running" };
const PAUSE: Change = { method: "POST", path: "/pause", fate: "paused" };
const HALT: Change = { method: "POST", path: "/pause", body: { memory: false }, fate: "paused" };
const EXPIRE: Change = { method: "POST", path: "/timeout", body: { timeout: 0 }, fate: "gone" };
const KILL: Change = { method: "DELETE", path: "", fate: "gone" };

async function change(load: Load, id: string, wanted: Change): Promise<boolean> {
  const { home, ledger } = load;
  const before = ledger.sandboxes.get(id) ?? [];
  ledger.sandboxes.set(id, [...before, wanted.fate]);
  const answer = await home.call(wanted.method, `/sandboxes/${id}${wanted.path}`, wanted.body);
  if (answer === undefined) return true;
  // What was refused has changed nothing.
  ledger.sandboxes.set(id, answer.status < 300 ? [wanted.fate] : before);
  return false;
}

async function takeSnapshot({ home, ledger, random }: Load, id: string, index: number) {
  const name = `by${index}x${random.below(1_000_000)}`;
  ledger.snapshots.set(name, ["there", "gone"]);
  const answer = await home.call("POST", `/sandboxes/${id}/snapshots`, { name });
  if (answer === undefined) return true;
  ledger.snapshots.set(name, answer.status < 300 ? ["there"] : ["gone"]);
  return false;
}

async function removeSnapshot({ home, ledger }: Load, name: string): Promise<boolean> {
  ledger.snapshots.set(name, ["there", "gone"]);
  const answer = await home.call("DELETE", `/templates/${name}`);
  if (answer === undefined) return true;
  ledger.snapshots.set(name, answer.status < 300 ? ["gone"] : ["there"]);
  return false;
}

async function fork({ home, ledger }: Load, id: string): Promise<boolean> {
  ledger.unanswered += 1;
  const answer = await home.call("POST", `/sandboxes/${id}/fork`, { timeout: 3600 });
  if (answer === undefined) return true;
  ledger.unanswered -= 1;
  const made = /"sandboxID":"([^"]+)"/.exec(JSON.stringify(answer.body))?.[1];
  if (made !== undefined) ledger.sandboxes.set(made, ["running"]);
  return false;
}

/** What is not as the ledger allows; what is as it allows becomes all that is allowed. */
export async function findBroken(home: FaultHome, ledger: Ledger): Promise<readonly string[]> {
  const listed = new Map(
    (await listAll(home)).map(({ sandboxID, state }) => [sandboxID, state] as const),
  );
  const shots = JSON.stringify((await home.call("GET", "/snapshots?limit=100"))?.body);
  const broken: string[] = [];
  for (const [id, fates] of ledger.sandboxes) {
    const state = listed.get(id);
    const fate: Fate = state === undefined ? "gone" : state === "paused" ? "paused" : "running";
    if (fates.includes(fate)) ledger.sandboxes.set(id, [fate]);
    else broken.push(`${id} is ${fate}, may be ${fates.join(" or ")}`);
  }
  for (const [name, fates] of ledger.snapshots) {
    const fate = shots.includes(`/${name}:`) ? "there" : "gone";
    if (fates.includes(fate)) ledger.snapshots.set(name, [fate]);
    else broken.push(`${name} is ${fate}`);
  }
  return broken;
}

/** Sandboxes that nobody was told of: at most those whose creation was never answered. */
export async function takeStrangers(
  home: FaultHome,
  ledger: Ledger,
  known: readonly string[],
): Promise<number> {
  let strangers = 0;
  for (const { sandboxID } of await listAll(home)) {
    if (ledger.sandboxes.has(sandboxID) || known.includes(sandboxID)) continue;
    strangers += 1;
    ledger.sandboxes.set(sandboxID, ["running"]);
  }
  return strangers;
}

/** A snapshot that counts can be started from. */
export async function startFrom(home: FaultHome, ledger: Ledger): Promise<void> {
  const [name] = [...ledger.snapshots].find(([, fates]) => fates.includes("there")) ?? [];
  if (name === undefined) return;
  const id = await make(home, { templateID: name });
  await home.call("DELETE", `/sandboxes/${id}`);
}
