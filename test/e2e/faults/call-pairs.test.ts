/**
 * Two calls for one sandbox at once, in any order and at any distance: each is answered by what its route
 * documents, what was answered stays true, and the sandbox can be used afterwards. At the end nothing is
 * left.
 */

import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import {
  findRemains,
  listAll,
  make,
  openFaultHome,
  type Answer,
  type FaultHome,
} from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { readLedger, runLedger, type Ledger } from "../../support/faults/ledger.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const { isWhole, random } = faultRun();
const ROUNDS = Number(process.env["CALL_PAIRS"] ?? (isWhole ? 150 : 5));
const LIMIT_MS = 120_000 + ROUNDS * 30_000;
/** Most calls are over by then. */
const MAX_DISTANCE_MS = 120;
const FILE = "/home/user/kept";

const runtime = gvisorRuntime();
const LEVELS: readonly (readonly [string, readonly string[]])[] = [
  ["copies", []],
  ["clones", ["--store-gb", "8"]],
  ["gvisor", ["--runtime", runtime ?? "", "--require-isolation", "gvisor"]],
];

interface Subject {
  readonly id: string;
  /** What the program in it said last; undefined once its processes ended with a pause without memory. */
  before: Ledger | undefined;
  /** What an upload was acknowledged for. */
  kept: string;
}

interface World {
  readonly home: FaultHome;
  subject: Subject;
  uploads: number;
}

type Call = (world: World, id: string) => Promise<Answer | undefined>;

const post =
  (name: string, body?: unknown): Call =>
  async ({ home }, id) =>
    home.call("POST", `/sandboxes/${id}/${name}`, body);
const get =
  (name: string): Call =>
  async ({ home }, id) =>
    home.call("GET", `/sandboxes/${id}${name}`);

const CALLS: Readonly<
  Record<string, { readonly call: Call; readonly statuses: readonly number[] }>
> = {
  pause: { call: post("pause", {}), statuses: [204, 404, 409] },
  pauseFiles: { call: post("pause", { memory: false }), statuses: [204, 404, 409] },
  connect: { call: post("connect", { timeout: 3600 }), statuses: [200, 201, 404, 409] },
  resume: { call: post("resume", { timeout: 3600 }), statuses: [201, 404, 409] },
  snapshot: { call: post("snapshots", {}), statuses: [201, 404, 409] },
  fork: { call: post("fork", { timeout: 600, count: 2 }), statuses: [201, 404, 409] },
  timeout: { call: post("timeout", { timeout: 3600 }), statuses: [204, 404, 409] },
  refresh: { call: post("refreshes", { duration: 3600 }), statuses: [204, 404, 409] },
  network: {
    call: async ({ home }, id) =>
      home.call("PUT", `/sandboxes/${id}/network`, { allow_internet_access: random.once(2) }),
    statuses: [204, 404, 409],
  },
  kill: {
    call: async ({ home }, id) => home.call("DELETE", `/sandboxes/${id}`),
    statuses: [204, 404],
  },
  detail: { call: get(""), statuses: [200, 404] },
  metrics: { call: get("/metrics"), statuses: [200, 404] },
  logs: { call: get("/logs"), statuses: [200, 404] },
  upload: {
    async call(world, id) {
      world.uploads += 1;
      const text = `${world.uploads}`;
      const path = `/files?username=user&path=${FILE}`;
      const answer = await world.home.enter(id, path, text);
      return answer && { ...answer, body: text };
    },
    statuses: [200, 404, 409, 502],
  },
};
const NAMES = Object.keys(CALLS);

async function startSubject(home: FaultHome): Promise<Subject> {
  const id = await make(home, { autoPause: true, autoResume: { enabled: random.once(2) } });
  const sandbox = await Sandbox.connect(id, { ...home.client(), timeoutMs: 3_600_000 });
  await runLedger(sandbox);
  await sandbox.files.write(FILE, "0");
  return { id, before: await readLedger(sandbox), kept: "0" };
}

interface Made {
  readonly name: string;
  readonly status: number;
  readonly body: unknown;
}

async function callAtOnce(world: World, names: readonly string[]): Promise<readonly Made[]> {
  const { id } = world.subject;
  return Promise.all(
    names.map(async (name) => {
      await delay(random.below(MAX_DISTANCE_MS));
      const answer = await CALLS[name]?.call(world, id);
      return { name, status: answer?.status ?? 0, body: answer?.body };
    }),
  );
}

const snapshotSchema = z.object({ snapshotID: z.string() });
const forksSchema = z.array(z.object({ sandbox: z.object({ sandboxID: z.string() }) }));
const detailSchema = z.object({ state: z.enum(["running", "paused"]) });

/** A copy has a file that was acknowledged before the calls, or by one of them. */
async function checkCopy({ home }: World, id: string, texts: readonly string[]): Promise<void> {
  const copy = await Sandbox.connect(id, home.client());
  expect(texts).toContain(await copy.files.read(FILE));
  await copy.kill();
}

async function checkMade(world: World, made: readonly Made[]): Promise<void> {
  const { home, subject } = world;
  const uploaded = made.filter(({ name }) => name === "upload").map(({ body }) => String(body));
  const texts = [subject.kept, ...uploaded];
  for (const { name, status, body } of made) {
    if (status !== 201) continue;
    if (name === "snapshot") {
      const { snapshotID } = snapshotSchema.parse(body);
      await checkCopy(world, await make(home, { templateID: snapshotID }), texts);
      await Sandbox.deleteSnapshot(snapshotID, home.client());
    }
    if (name === "fork") {
      for (const { sandbox } of forksSchema.parse(body))
        await checkCopy(world, sandbox.sandboxID, texts);
    }
  }
}

/** The subject goes on with what was acknowledged; one that was killed is gone, and has a successor. */
async function checkSubject(world: World, made: readonly Made[]): Promise<void> {
  const { home, subject } = world;
  const did = (name: string) => made.some((one) => one.name === name && one.status < 300);
  const detail = await home.call("GET", `/sandboxes/${subject.id}`);
  const listed = (await listAll(home)).filter(({ sandboxID }) => sandboxID === subject.id);
  const isKilled = did("kill");
  const state = isKilled ? undefined : detailSchema.parse(detail?.body).state;
  expect([detail?.status, ...listed.map((one) => one.state)]).toEqual(
    isKilled ? [404] : [200, state],
  );
  if (isKilled) {
    world.subject = await startSubject(home);
    return;
  }
  const sandbox = await Sandbox.connect(subject.id, { ...home.client(), timeoutMs: 3_600_000 });
  const kept = await sandbox.files.read(FILE);
  const written = made.filter(({ name, status }) => name === "upload" && status < 300);
  const tried = made.filter(({ name }) => name === "upload");
  expect([
    ...(written.length === 0 ? [subject.kept] : []),
    ...tried.map(({ body }) => body),
  ]).toContain(kept);
  subject.kept = kept;
  if (did("pauseFiles")) subject.before = undefined;
  if (subject.before === undefined) return;
  const after = await readLedger(sandbox);
  expect([after.word, after.count >= subject.before.count]).toEqual([subject.before.word, true]);
  subject.before = after;
}

/** Before the calls it runs, or is paused. */
async function prepare({ home, subject }: World): Promise<string> {
  const start = random.pick(["running", "running", "paused", "pausedFiles"]);
  if (start === "running") return start;
  const memory = start === "paused";
  if (!memory) subject.before = undefined;
  const answer = await home.call("POST", `/sandboxes/${subject.id}/pause`, { memory });
  expect(answer?.status).toBe(204);
  return start;
}

test.for(LEVELS)(
  "R2 calls for one sandbox at once, storage by %s: each answer stays true",
  { timeout: LIMIT_MS },
  async ([level, flags], { skip }) => {
    skip(level === "gvisor" && runtime === undefined, "no runsc");
    await using home = await openFaultHome(["--pool", "0", ...flags]);
    await home.start();
    const world: World = { home, subject: await startSubject(home), uploads: 0 };
    const done: string[] = [];
    try {
      for (let round = 0; round < ROUNDS; round += 1) {
        const names = Array.from({ length: 2 + random.below(2) }, () => random.pick(NAMES));
        done.push(`${await prepare(world)}: ${names.join(" ")}`);
        const made = await callAtOnce(world, names);
        done.push(made.map(({ status }) => status).join(" "));
        const strange = made.filter(({ name, status }) => !CALLS[name]?.statuses.includes(status));
        expect(strange).toEqual([]);
        await checkMade(world, made);
        await checkSubject(world, made);
      }
      await Sandbox.kill(world.subject.id, home.client());
    } catch (error) {
      throw new Error(`${done.join("\n")}\n${home.stderr().slice(-6_000)}`, { cause: error });
    }
    await home.stop("SIGTERM");
    expect(await findRemains(home)).toEqual([]);
  },
);
