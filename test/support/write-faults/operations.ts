/** What a service is asked for while one of its writes fails: how it is prepared, done, and what it changes. */

import { randomBytes } from "node:crypto";
import { z } from "../../../src/common/schema.ts";
import { KEPT, POOLED } from "../faults/fault-cases.ts";
import { make, type Answer, type FaultHome } from "../faults/fault-home.ts";
import { volumeSchema, type VolumeAccess } from "../faults/volume-access.ts";
import { startProgram } from "../program.ts";
import { GONE, hashOf, note, type Effect, type Model, type World } from "./model.ts";
import { runOutput } from "./process-output.ts";

/** Undefined: the service did not answer. */
export type Told = Answer | undefined;

export interface WriteOperation {
  readonly name: string;
  /** Makes what it is about; `word` is no other case's. Returns its identifier. */
  prepare(world: World, word: string): Promise<string>;
  act(home: FaultHome, subject: string, world: World): Promise<Told>;
  /** What it has changed when it was done. */
  effects(subject: string, told: Told, model: Model): readonly Effect[];
  /** Whether what failed may have happened all the same: it is completed, or was when it failed. */
  readonly mayBeDone?: boolean;
  /** What else the same call may answer after one that failed. */
  readonly again?: readonly number[];
  /** Whether it is told to who runs the service, who may know its paths. */
  readonly isLocal?: boolean;
}

const HOUR_S = 3_600;
const FILE_BYTES = 200_000;
const madeSchema = z.object({ sandboxID: z.string() });
const targetSchema = z.object({ templateID: z.string() });
const filesSchema = z.object({ url: z.string() });
const forkSchema = z.array(z.object({ sandbox: madeSchema.optional() }));

async function makeSandbox({ home, model }: World, wishes: object = {}): Promise<string> {
  const id = await make(home, { ...wishes });
  const text = randomBytes(30_000).toString("hex");
  await home.enter(id, KEPT.path, text);
  note(
    model,
    [
      [`sandbox ${id}`, "running"],
      [`text ${id}`, hashOf(text)],
    ],
    true,
  );
  return id;
}

async function makePaused(world: World, memory: boolean): Promise<string> {
  const id = await makeSandbox(world);
  expectDone(await world.home.call("POST", `/sandboxes/${id}/pause`, { memory }));
  note(world.model, [[`sandbox ${id}`, "paused"]], true);
  return id;
}

async function makeVolume({ home, model }: World, name: string): Promise<VolumeAccess> {
  const volume = volumeSchema.parse(
    expectDone(await home.call("POST", "/volumes", { name }))?.body,
  );
  note(model, [[`volume ${volume.volumeID}`, name]], true);
  model.tokens.set(volume.volumeID, volume);
  return volume;
}

async function makeSnapshot(world: World, name: string): Promise<string> {
  const id = await makeSandbox(world);
  expectDone(await world.home.call("POST", `/sandboxes/${id}/snapshots`, { name }));
  note(world.model, shotEffects(world.model, id, name), true);
  return name;
}

function shotEffects(model: Model, id: string, name: string): Effect[] {
  const [text = ""] = model.things.get(`text ${id}`) ?? [];
  return [
    [`template local/${name}`, "there"],
    [`shot ${name}`, text],
  ];
}

function expectDone(told: Told): Told {
  if (told === undefined || told.status >= 300) throw new Error(JSON.stringify(told));
  return told;
}

const post =
  (end: string, body?: unknown): WriteOperation["act"] =>
  async (home, id) =>
    home.call("POST", `/sandboxes/${id}${end}`, body);

/** The content of a volume. */
async function ask(
  { home, model }: World,
  [volumeId = "", path = ""]: readonly string[],
  init: RequestInit,
): Promise<Told> {
  const url = `${home.client().apiUrl}/volumecontent/${volumeId}${path}`;
  const authorization = `Bearer ${model.tokens.get(volumeId)?.token}`;
  const headers = { authorization, "content-type": "application/json" };
  try {
    const reply = await fetch(url, { ...init, headers });
    const text = await reply.text();
    return { status: reply.status, body: text === "" ? "" : JSON.parse(text) };
  } catch {
    // The connection broke: nothing was said.
    return undefined;
  }
}

/** A command of the program as a call: its exit code decides. */
async function run(home: FaultHome, ...words: string[]): Promise<Told> {
  await using program = startProgram([...words, "--home", home.path]);
  const code = await program.exited();
  if (code === 0) return { status: 200, body: "" };
  return { status: 500, body: { code: 500, message: program.stderr() } };
}

/** Bytes of a file that does not fit into one write; the same ones each time. */
const FILE = Buffer.alloc(FILE_BYTES, "the content of a file\n").toString();

export const OPERATIONS: readonly WriteOperation[] = [
  {
    name: "create",
    prepare: async () => "",
    act: async (home) =>
      home.call("POST", "/sandboxes", { templateID: "base", timeout: HOUR_S, secure: false }),
    effects: (_none, told) => [[`sandbox ${idOf(told)}`, "running"]],
  },
  {
    name: "create with a volume",
    prepare: async (world, word) => {
      await makeVolume(world, word);
      return word;
    },
    act: async (home, name) => {
      const volumeMounts = [{ name, path: "/data" }];
      const body = { templateID: "base", timeout: HOUR_S, secure: false, volumeMounts };
      return home.call("POST", "/sandboxes", body);
    },
    effects: (_none, told) => [[`sandbox ${idOf(told)}`, "running"]],
  },
  {
    name: "upload to a sandbox",
    prepare: async (world) => makeSandbox(world),
    act: async (home, id) => home.enter(id, KEPT.path, FILE),
    effects: (id) => [[`text ${id}`, hashOf(FILE)]],
  },
  {
    name: "pause",
    prepare: async (world) => makeSandbox(world),
    act: post("/pause"),
    effects: (id) => [[`sandbox ${id}`, "paused"]],
    again: [409],
  },
  {
    name: "pause without memory",
    prepare: async (world) => makeSandbox(world),
    act: post("/pause", { memory: false }),
    effects: (id) => [[`sandbox ${id}`, "paused"]],
    // What the disk has lost is not written again: no later call says that it is there.
    again: [409, 503],
  },
  {
    name: "pause without memory, by the next service",
    isLocal: true,
    prepare: async (world) => makeSandbox(world),
    act: async (home, id) => {
      const told = await home.call("POST", `/sandboxes/${id}/pause`, { memory: false });
      if (told === undefined || told.status < 300) return told;
      await home.stop("SIGTERM");
      await home.start();
      return home.call("POST", `/sandboxes/${id}/pause`, { memory: false });
    },
    effects: (id) => [[`sandbox ${id}`, "paused"]],
    again: [409, 503],
  },
  {
    name: "resume",
    prepare: async (world) => makePaused(world, true),
    act: post("/connect", { timeout: HOUR_S }),
    effects: (id) => [[`sandbox ${id}`, "running"]],
  },
  {
    name: "boot",
    prepare: async (world) => makePaused(world, false),
    act: post("/connect", { timeout: HOUR_S }),
    effects: (id) => [[`sandbox ${id}`, "running"]],
  },
  {
    name: "time to live",
    prepare: async (world) => {
      const id = await makeSandbox(world);
      note(world.model, [[`ends ${id}`, "1 h"]], true);
      return id;
    },
    act: post("/timeout", { timeout: 2 * HOUR_S }),
    effects: (id) => [[`ends ${id}`, "2 h"]],
  },
  {
    name: "snapshot",
    prepare: async (world, word) => `${await makeSandbox(world)} ${word}`,
    act: async (home, subject) => {
      const [id, name] = subject.split(" ");
      return home.call("POST", `/sandboxes/${id}/snapshots`, { name });
    },
    effects: (subject, _told, model) => {
      const [id = "", name = ""] = subject.split(" ");
      return shotEffects(model, id, name);
    },
  },
  {
    name: "fork",
    prepare: async (world) => makeSandbox(world),
    act: post("/fork", { count: 1, timeout: HOUR_S }),
    effects: (_id, told) =>
      forkSchema
        .parse(told?.body)
        .flatMap(({ sandbox }) =>
          sandbox === undefined ? [] : [[`sandbox ${sandbox.sandboxID}`, "running"] as const],
        ),
  },
  {
    name: "kill",
    prepare: async (world) => makeSandbox(world),
    act: async (home, id) => home.call("DELETE", `/sandboxes/${id}`),
    effects: (id) => [[`sandbox ${id}`, GONE]],
    mayBeDone: true,
    again: [404],
  },
  {
    name: "kill of a paused one",
    prepare: async (world) => makePaused(world, false),
    act: async (home, id) => home.call("DELETE", `/sandboxes/${id}`),
    effects: (id) => [[`sandbox ${id}`, GONE]],
    mayBeDone: true,
    again: [404],
  },
  {
    name: "new volume",
    prepare: async (_world, word) => word,
    act: async (home, name) => home.call("POST", "/volumes", { name }),
    effects: (name, told) => [[`volume ${volumeSchema.parse(told?.body).volumeID}`, name]],
  },
  {
    name: "upload to a volume",
    prepare: async (world, word) => (await makeVolume(world, word)).volumeID,
    act: async (_home, id, world) =>
      ask(world, [id, "/file?path=/a/file&force=true"], { method: "PUT", body: FILE }),
    effects: (id) => [[`file ${id} a/file`, hashOf(FILE)]],
  },
  {
    name: "change in a volume",
    prepare: makeFile,
    act: async (_home, id, world) => {
      const body = JSON.stringify({ mode: 0o600 });
      return ask(world, [id, "/path?path=/file"], { method: "PATCH", body });
    },
    effects: () => [],
  },
  {
    name: "removal in a volume",
    prepare: makeFile,
    act: async (_home, id, world) => ask(world, [id, "/path?path=/file"], { method: "DELETE" }),
    effects: (id) => [[`file ${id} file`, GONE]],
    mayBeDone: true,
    again: [404],
  },
  {
    name: "removal of a volume",
    prepare: async (world, word) => (await makeVolume(world, word)).volumeID,
    act: async (home, id) => home.call("DELETE", `/volumes/${id}`),
    effects: (id) => [[`volume ${id}`, GONE]],
    mayBeDone: true,
    again: [404],
  },
  {
    name: "tag",
    prepare: makeSnapshot,
    act: async (home, name) =>
      home.call("POST", "/templates/tags", { target: name, tags: ["other"] }),
    effects: (name) => [[`tag ${name} other`, "there"]],
  },
  {
    name: "removal of a template",
    prepare: makeSnapshot,
    act: async (home, name) => home.call("DELETE", `/templates/${name}`),
    effects: (name) => [[`template local/${name}`, GONE]],
    mayBeDone: true,
    again: [404],
  },
  {
    name: "new key",
    isLocal: true,
    prepare: async (_world, word) => word,
    act: async (home, name) => run(home, "key", "create", name),
    effects: (name) => [[`key ${name}`, "there"]],
  },
  {
    name: "removal of a key",
    isLocal: true,
    prepare: async ({ home, model }, word) => {
      expectDone(await run(home, "key", "create", word));
      note(model, [[`key ${word}`, "there"]], true);
      return word;
    },
    act: async (home, name) => run(home, "key", "revoke", name),
    effects: (name) => [[`key ${name}`, GONE]],
  },
  {
    name: "end and start of the service",
    isLocal: true,
    prepare: async (world) => makeSandbox(world),
    act: async (home) => {
      if (home.isRunning()) await home.stop("SIGTERM");
      try {
        await home.start();
        return { status: 200, body: "" };
      } catch (error) {
        // A start that fails says why, and the next one works.
        return { status: 500, body: { code: 500, message: String(error) } };
      }
    },
    effects: () => [],
  },
  {
    name: "output of a process",
    prepare: async (world) => makeSandbox(world),
    act: async (home, id) => runOutput(home, id),
    effects: () => [],
  },
  {
    name: "upload for a build",
    async prepare({ home }, name) {
      const wanted = expectDone(await home.call("POST", "/v3/templates", { name }));
      const { templateID } = targetSchema.parse(wanted?.body);
      const hash = randomBytes(32).toString("hex");
      const files = expectDone(await home.call("GET", `/templates/${templateID}/files/${hash}`));
      return filesSchema.parse(files?.body).url;
    },
    act: async (home, url) => home.put(url, Buffer.from(FILE)),
    effects: () => [],
  },
];

/** The answer comes before the next one that waits is started. */
export const POOLED_CREATE: WriteOperation = {
  name: "create from the pool",
  prepare: async ({ home }) => POOLED.prepare(home),
  act: async (home) => {
    const told = await home.call("POST", "/sandboxes", {
      templateID: "base",
      timeout: HOUR_S,
      secure: false,
    });
    await POOLED.prepare(home);
    return told;
  },
  effects: (_none, told) => [[`sandbox ${idOf(told)}`, "running"]],
};

async function makeFile(world: World, word: string): Promise<string> {
  const { volumeID } = await makeVolume(world, word);
  expectDone(await ask(world, [volumeID, "/file?path=/file"], { method: "PUT", body: FILE }));
  note(world.model, [[`file ${volumeID} file`, hashOf(FILE)]], true);
  return volumeID;
}

function idOf(told: Told): string {
  return madeSchema.parse(told?.body).sandboxID;
}
