/**
 * Several clients make long random sequences of calls, each for sandboxes of its own, while the service
 * is killed or ended and started again. A model has what each sandbox may be: every answer fits it, every
 * list has what is there, once and in order, and files are those that were acknowledged. At the end
 * nothing is left.
 */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { follow, OPERATIONS, type State } from "../../support/control/call-model.ts";
import { findRemains, openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";

const { random } = faultRun();
const CALLS = Number(process.env["CALL_SEQUENCES"] ?? 300);
const CLIENTS = 4;
const MAX_OWN = 3;
/** Between two ends of the service. */
const MAX_UNDISTURBED_CALLS = 60;
const POLL_MS = 10;
const LIMIT_MS = 30 * 60_000;
const FILE = "/files?username=user&path=/home/user/kept";

interface Box {
  readonly id: string;
  states: ReadonlySet<State>;
  texts: ReadonlySet<string>;
  /** Grows with each call that begins or ends: a list between two equal numbers sees the same. */
  changes: number;
}

interface World {
  readonly home: FaultHome;
  readonly boxes: Box[];
  /** Snapshots with what a sandbox of theirs may have. */
  readonly snapshots: Map<string, ReadonlySet<string>>;
  calls: number;
  /** Calls that nobody answers tell nothing. */
  isUp: boolean;
  /** What a create without an answer may have made, at most. */
  unanswered: number;
  readonly done: string[];
}

const snapshotSchema = z.object({ snapshotID: z.string() });
const createdSchema = z.object({ sandboxID: z.string() });
const listSchema = z.array(
  z.object({
    sandboxID: z.string(),
    startedAt: z.string(),
    state: z.enum(["running", "paused"]),
  }),
);

async function change(world: World, box: Box): Promise<void> {
  const operation = random.pick(OPERATIONS);
  const { method, path, body } = operation;
  box.changes += 1;
  const answer = await world.home.call(method, `/sandboxes/${box.id}${path}`, body);
  const words = [method, path, JSON.stringify(body), box.id, [...box.states], answer?.status];
  world.done.push(words.join(" "));
  // What the service refuses because it ends comes about or not, as without an answer.
  const status = answer === undefined || answer.status >= 500 ? undefined : answer.status;
  const states = follow(box.states, operation, status);
  if (states.size === 0)
    throw new Error(`no such answer: ${words.join(" ")} ${JSON.stringify(answer?.body)}`);
  box.states = states;
  if (method === "GET" && path === "" && status === 200) see(box, answer?.body);
  box.changes += 1;
  if (status === 201 && path === "/snapshots")
    world.snapshots.set(snapshotSchema.parse(answer?.body).snapshotID, box.texts);
}

const stateSchema = z.object({ state: z.enum(["running", "paused"]) });

/** What it is described as, it is. */
function see(box: Box, body: unknown): void {
  const { state } = stateSchema.parse(body);
  const fitting = [...box.states].filter((one) => (one === "halted" ? "paused" : one) === state);
  expect([box.id, state, ...fitting]).not.toEqual([box.id, state]);
  box.states = new Set(fitting);
}

async function create(world: World): Promise<Box | undefined> {
  const [snapshot, texts] = [...world.snapshots].at(-1) ?? ["base", new Set([""])];
  const body = { templateID: snapshot, timeout: 3600, secure: false };
  world.unanswered += 1;
  const answer = await world.home.call("POST", "/sandboxes", body);
  world.done.push(`create ${snapshot} ${answer?.status}`);
  if (answer === undefined || answer.status >= 500) return undefined;
  world.unanswered -= 1;
  expect(answer).toMatchObject({ status: 201 });
  const { sandboxID: id } = createdSchema.parse(answer.body);
  const box: Box = { id, states: new Set<State>(["running"]), texts, changes: 0 };
  world.boxes.push(box);
  return box;
}

const isSure = (box: Box, state: State) => box.states.size === 1 && box.states.has(state);

async function useFile(world: World, box: Box): Promise<void> {
  if (!isSure(box, "running")) return;
  const text = random.once(2) ? `${world.calls}` : undefined;
  const answer = await world.home.enter(box.id, FILE, text);
  world.done.push(`file ${text ?? "read"} ${box.id} ${answer?.status}`);
  if (answer === undefined || answer.status >= 500) {
    if (text !== undefined) box.texts = new Set([...box.texts, text]);
    return;
  }
  if (text !== undefined) {
    expect(answer).toMatchObject({ status: 200 });
    box.texts = new Set([text]);
    return;
  }
  const found = answer.status === 404 ? "" : String(answer.body);
  expect([...box.texts]).toContain(found);
  box.texts = new Set([found]);
}

async function readPages(home: FaultHome, order: string) {
  const found: z.infer<typeof listSchema> = [];
  const { apiUrl, apiKey } = home.client();
  const query = new URLSearchParams({ order, limit: "2" });
  for (;;) {
    const reply = await fetch(`${apiUrl}/v2/sandboxes?${query.toString()}`, {
      headers: { "x-api-key": apiKey },
    }).catch(() => undefined);
    if (reply?.status !== 200) return undefined;
    found.push(...listSchema.parse(await reply.json()));
    const token = reply.headers.get("x-next-token");
    if (token === null) return found;
    query.set("nextToken", token);
  }
}

/** What nobody changes meanwhile is there once, in its state, newest first or last. */
async function checkList({ home, boxes, done }: World): Promise<void> {
  const before = new Map(boxes.map((box) => [box, box.changes]));
  const order = random.pick(["asc", "desc"]);
  const found = await readPages(home, order).catch(() => undefined);
  done.push(`list ${order} ${found?.length}`);
  if (found === undefined) return;
  const quiet = boxes.filter((box) => before.get(box) === box.changes && box.changes % 2 === 0);
  for (const box of quiet.filter(({ states }) => states.size === 1)) {
    const state = [...box.states].map((one) => (one === "halted" ? "paused" : one));
    const listed = found.filter(({ sandboxID }) => sandboxID === box.id).map((one) => one.state);
    expect([box.id, ...listed]).toEqual([box.id, ...(isSure(box, "gone") ? [] : state)]);
  }
  const times = found
    .filter(({ sandboxID }) => quiet.some(({ id }) => id === sandboxID))
    .map(({ startedAt }) => startedAt);
  const sorted = times.toSorted();
  expect(times).toEqual(order === "asc" ? sorted : sorted.toReversed());
}

async function runClient(world: World): Promise<void> {
  const own: Box[] = [];
  while (world.calls < CALLS) {
    while (!world.isUp) await delay(POLL_MS);
    world.calls += 1;
    const alive = own.filter((box) => !isSure(box, "gone"));
    if (alive.length < MAX_OWN && (alive.length === 0 || random.once(4))) {
      const box = await create(world);
      if (box !== undefined) own.push(box);
      continue;
    }
    const box = random.pick(random.once(10) ? own : alive);
    const choice = random.below(10);
    if (choice === 0) await checkList(world);
    else if (choice < 4) await useFile(world, box);
    else await change(world, box);
  }
}

async function disturb(world: World, signal: AbortSignal): Promise<void> {
  const { home, done } = world;
  for (;;) {
    const end = world.calls + random.below(MAX_UNDISTURBED_CALLS);
    while (world.calls <= end && !signal.aborted) await delay(POLL_MS);
    if (signal.aborted) return;
    const kind = random.pick(["SIGKILL", "SIGKILL", "SIGTERM"] as const);
    done.push(kind);
    world.isUp = false;
    await home.stop(kind);
    await home.start();
    world.isUp = true;
  }
}

async function removeAll({ home, boxes, unanswered, snapshots }: World): Promise<void> {
  const found = await readPages(home, "desc");
  if (found === undefined) throw new Error("the service does not list its sandboxes");
  const strangers = found.filter(({ sandboxID }) => boxes.every(({ id }) => id !== sandboxID));
  expect(strangers.length).toBeLessThanOrEqual(unanswered);
  for (const { sandboxID } of found)
    expect(await home.call("DELETE", `/sandboxes/${sandboxID}`)).toMatchObject({ status: 204 });
  for (const id of snapshots.keys())
    expect(await home.call("DELETE", `/templates/${encodeURIComponent(id)}`)).toMatchObject({
      status: 204,
    });
}

test(
  `R2 ${CALLS} random calls of ${CLIENTS} clients around ends of the service`,
  {
    timeout: LIMIT_MS,
  },
  async () => {
    await using home = await openFaultHome(["--pool", "1"]);
    await home.start();
    const world: World = {
      home,
      boxes: [],
      snapshots: new Map(),
      calls: 0,
      isUp: true,
      unanswered: 0,
      done: [],
    };
    const over = new AbortController();
    const disturbed = disturb(world, over.signal);
    const clients = Array.from({ length: CLIENTS }, () => runClient(world));
    const all = Promise.all(clients).finally(() => over.abort());
    try {
      await Promise.all([all, disturbed]);
      await removeAll(world);
    } catch (error) {
      over.abort();
      Object.assign(world, { calls: CALLS, isUp: true });
      await Promise.allSettled([...clients, disturbed]);
      const text = `${world.done.slice(-400).join("\n")}\n${home.stderr().slice(-6_000)}`;
      throw new Error(text, { cause: error });
    }
    await home.stop("SIGTERM");
    expect(await findRemains(home)).toEqual([]);
  },
);
