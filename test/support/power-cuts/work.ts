/** Work for a service on a recorded disk: each kind of thing that is acknowledged, changed and removed. */

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readlink } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { playFaultBuild, requestFaultBuild } from "../faults/fault-build.ts";
import { make, type Answer, type FaultHome } from "../faults/fault-home.ts";
import { startProgram } from "../program.ts";
import { MARKER, type History } from "./check-cut.ts";
import { fileValue, readBuild, readValue } from "./home-values.ts";
import { createLedger, type Value } from "./ledger.ts";

const volumeSchema = z.object({ volumeID: z.string(), token: z.string() });
const forkSchema = z.array(z.object({ sandbox: z.object({ sandboxID: z.string() }) }));
const targetSchema = z.object({ templateID: z.string() });
const filesSchema = z.object({ url: z.string() });
const FILE_MODE = 0o644;
const FOLDER = "folder 755";

export type Volume = z.infer<typeof volumeSchema>;

export interface Work extends History {
  readonly home: FaultHome;
  readonly builds: Map<string, string>;
  readonly texts: Map<string, string>;
  readonly tokens: Map<string, string>;
}

export function beginWork(home: FaultHome, position: () => number): Work {
  const ledger = createLedger(position);
  return { home, ledger, builds: new Map(), texts: new Map(), tokens: new Map() };
}

/** The service runs; it goes on afterwards. Rounds differ in nothing but names. */
export async function work(state: Work, rounds: number): Promise<void> {
  const volume = await makeVolume(state, "first");
  await keyWork(state);
  let older: string | undefined;
  for (let round = 1; round <= rounds; round += 1) {
    const more = await makeVolume(state, `volume-${round}`);
    const isOver = new AbortController();
    const files = filesUntil(state, more, isOver.signal);
    const next = await sandboxWork(state, round);
    // A template with a sandbox stays.
    if (older !== undefined) await removePaused(state, older);
    await templateWork(state, round);
    older = next;
    isOver.abort();
    await files;
    await fileWork(state, volume, `round-${round}`);
    await removeVolume(state, more);
  }
  await buildWork(state);
}

/** Method and path of a route, with a blank between. */
async function call({ home }: Work, route: string, body?: unknown): Promise<Answer> {
  const [method = "", path = ""] = route.split(" ");
  return expectDone(await home.call(method, path, body), route);
}

function expectDone(answer: Answer | undefined, what: string): Answer {
  if (answer === undefined || answer.status >= 300) {
    throw new Error(`${what}: ${JSON.stringify(answer)}`);
  }
  return answer;
}

/** What the service has on its disk at this moment. */
async function lookUp({ home, builds }: Work, ...names: string[]) {
  using store = openStore({ path: join(home.path, "state.db") });
  const opened = { path: home.path, store };
  for (const build of store.builds.all()) {
    if (build.status === "ready" && !builds.has(build.buildId)) {
      // A fork's may go with the last that needs it while it is read.
      const value = await readBuild(opened, build).catch(() => undefined);
      if (value !== undefined) builds.set(build.buildId, value);
    }
  }
  const found: [string, Value][] = [];
  for (const name of names) {
    const value = await readValue(opened, name);
    if (value === undefined) throw new Error(`${name} is not there`);
    found.push([name, value]);
  }
  return found;
}

const gone = (...names: string[]) => names.map((name) => [name, undefined] as const);

async function makeVolume(state: Work, name: string): Promise<Volume> {
  const { body } = await state.ledger.change(
    () => call(state, "POST /volumes", { name }),
    ({ body: made }) => [[`volume ${volumeSchema.parse(made).volumeID}`, name]],
  );
  const volume = volumeSchema.parse(body);
  state.tokens.set(volume.volumeID, volume.token);
  return volume;
}

async function removeVolume(state: Work, { volumeID }: Volume): Promise<void> {
  const files = state.ledger.names.filter((name) => name.startsWith(`file ${volumeID} `));
  await state.ledger.change(
    () => call(state, `DELETE /volumes/${volumeID}`),
    () => gone(`volume ${volumeID}`, ...files),
  );
}

interface Content {
  readonly volume: Volume;
  readonly path: string;
}

async function askVolume({ home }: Work, { volume, path }: Content, init: RequestInit) {
  const url = `${home.client().apiUrl}/volumecontent/${volume.volumeID}${path}`;
  const headers = { authorization: `Bearer ${volume.token}`, "content-type": "application/json" };
  const reply = await fetch(url, { ...init, headers });
  expectDone({ status: reply.status, body: await reply.text() }, path);
}

/** Uploads a file; the folders above it are made. */
export async function upload(
  state: Work,
  volume: Volume,
  file: { readonly path: string; readonly bytes: Buffer<ArrayBuffer>; readonly mode?: number },
): Promise<void> {
  const { path, bytes, mode = FILE_MODE } = file;
  const { volumeID } = volume;
  const above = path.split("/").slice(0, -1);
  const folders = above.map((_name, index) => above.slice(0, index + 1).join("/"));
  await state.ledger.change(
    () =>
      askVolume(
        state,
        { volume, path: `/file?path=/${path}&force=true` },
        { method: "PUT", body: bytes },
      ),
    () => [
      ...folders.map((folder) => [`file ${volumeID} ${folder}`, FOLDER] as const),
      [`file ${volumeID} ${path}`, fileValue(mode, bytes)] as const,
    ],
  );
}

/** New, overwritten, changed and removed files. */
async function fileWork(state: Work, volume: Volume, folder: string): Promise<void> {
  const { ledger } = state;
  const { volumeID } = volume;
  const name = (path: string) => `file ${volumeID} ${folder}/${path}`;
  const bytes = randomBytes(200_000);
  await upload(state, volume, { path: `${folder}/below/large`, bytes });
  await upload(state, volume, { path: `${folder}/small`, bytes: randomBytes(10) });
  await upload(state, volume, { path: `${folder}/small`, bytes: randomBytes(5000) });
  const change = { method: "PATCH", body: JSON.stringify({ mode: 0o600 }) };
  await ledger.change(
    () => askVolume(state, { volume, path: `/path?path=/${folder}/below/large` }, change),
    () => [[name("below/large"), fileValue(0o600, bytes)]],
  );
  await ledger.change(
    () => askVolume(state, { volume, path: `/dir?path=/${folder}/made` }, { method: "POST" }),
    () => [[name("made"), FOLDER]],
  );
  await ledger.change(
    () => askVolume(state, { volume, path: `/path?path=/${folder}/small` }, { method: "DELETE" }),
    () => gone(name("small")),
  );
  await ledger.change(
    () => askVolume(state, { volume, path: `/path?path=/${folder}/below` }, { method: "DELETE" }),
    () => gone(name("below"), name("below/large")),
  );
}

/** Beside other work: writes and flushes of both mix. */
async function filesUntil(state: Work, volume: Volume, signal: AbortSignal): Promise<void> {
  for (let count = 0; count < 50 && !signal.aborted; count += 1) {
    await upload(state, volume, { path: `f${count % 5}`, bytes: randomBytes(1 + count * 1000) });
  }
}

interface Marked {
  readonly id: string;
  /** What is in its file. */
  readonly text: string;
}

async function makeMarked(state: Work, templateID: string): Promise<Marked> {
  return remark(state, await make(state.home, { templateID }));
}

async function snapshot(state: Work, { id, text }: Marked, name: string): Promise<void> {
  const [alias = "", tag = "default"] = name.split(":");
  const names = [`named local/${alias} ${tag}`, `tag local/${alias} ${tag}`] as const;
  await state.ledger.change(
    () => call(state, `POST /sandboxes/${id}/snapshots`, { name }),
    () => lookUp(state, ...names),
  );
  keepText(state, names[0], text);
}

function keepText({ ledger, texts }: Work, name: string, text: string): void {
  texts.set(ledger.acknowledged(name, Infinity) ?? "", text);
}

/** Without its memory: only its disk is left. */
async function pause(state: Work, { id, text }: Marked): Promise<void> {
  const name = `paused ${id}`;
  await state.ledger.change(
    () => call(state, `POST /sandboxes/${id}/pause`, { memory: false }),
    () => lookUp(state, name),
  );
  keepText(state, name, text);
}

/** Another program of the machine has a copy of every mount: the end of the one here is not its last. */
async function whileMountsAreCopied(during: () => Promise<void>): Promise<void> {
  const words = ["--mount", "--propagation", "private", "sleep", "600"];
  const other = spawn("unshare", words, { stdio: "ignore" });
  try {
    const own = await readlink("/proc/self/ns/mnt");
    await expect.poll(() => readlink(`/proc/${other.pid}/ns/mnt`)).not.toBe(own);
    await during();
  } finally {
    other.kill("SIGKILL");
  }
}

/** Writes another text to its file. */
async function remark(state: Work, id: string): Promise<Marked> {
  const text = randomBytes(30_000).toString("hex");
  expectDone(await state.home.enter(id, MARKER, text), "marker");
  return { id, text };
}

/** Returns the one that is paused and was made from the round's snapshot. */
async function sandboxWork(state: Work, round: number): Promise<string> {
  const { ledger } = state;
  const first = await makeMarked(state, "base");
  await snapshot(state, first, `shot-${round}`);
  const later = await remark(state, first.id);
  await snapshot(state, later, `shot-${round}`);
  await snapshot(state, later, `shot-${round}:second`);
  const copies = { count: 1, timeout: 3600 };
  const forked = await call(state, `POST /sandboxes/${first.id}/fork`, copies);
  const id = forkSchema.parse(forked.body)[0]?.sandbox.sandboxID ?? "";
  await call(state, `DELETE /sandboxes/${first.id}`);
  await pause(state, { ...later, id });
  const second = await makeMarked(state, `shot-${round}`);
  if (round === 1) await whileMountsAreCopied(() => pause(state, second));
  else await pause(state, second);
  await ledger.change(
    () => call(state, `POST /sandboxes/${id}/connect`, { timeout: 3600 }),
    () => gone(`paused ${id}`),
  );
  await pause(state, await remark(state, id));
  return second.id;
}

async function removePaused(state: Work, id: string): Promise<void> {
  await state.ledger.change(
    () => call(state, `DELETE /sandboxes/${id}`),
    () => gone(`paused ${id}`),
  );
}

async function templateWork(state: Work, round: number): Promise<void> {
  const { ledger } = state;
  const name = `local/shot-${round}`;
  await ledger.change(
    () => call(state, `PATCH /templates/shot-${round}`, { public: true }),
    () => [[`public ${name}`, "true"]],
  );
  await ledger.change(
    () => call(state, "POST /templates/tags", { target: `shot-${round}`, tags: ["third"] }),
    () => lookUp(state, `tag ${name} third`, `named ${name} third`),
  );
  await ledger.change(
    () => call(state, "DELETE /templates/tags", { name: `shot-${round}`, tags: ["second"] }),
    () => gone(`tag ${name} second`, `named ${name} second`),
  );
  if (round === 1) return;
  const old = `local/shot-${round - 1}`;
  const tags = ["default", "second", "third"].flatMap((tag) => [
    `tag ${old} ${tag}`,
    `named ${old} ${tag}`,
  ]);
  await ledger.change(
    () => call(state, `DELETE /templates/shot-${round - 1}`),
    () => gone(`public ${old}`, ...tags),
  );
}

async function keyWork(state: Work): Promise<void> {
  const { home, ledger } = state;
  await ledger.change(
    () => startProgram(["key", "create", "kept", "--home", home.path]).exited(),
    () => lookUp(state, "key kept"),
  );
}

async function buildWork(state: Work): Promise<void> {
  const { home, ledger } = state;
  const wanted = await call(state, "POST /v3/templates", { name: "uploaded" });
  const { templateID } = targetSchema.parse(wanted.body);
  const hash = randomBytes(32).toString("hex");
  const files = await call(state, `GET /templates/${templateID}/files/${hash}`);
  const bytes = randomBytes(100_000);
  await ledger.change(
    async () => expectDone(await home.put(filesSchema.parse(files.body).url, bytes), "upload"),
    () => [[`upload local ${hash}`, fileValue(0o600, bytes)]],
  );
  const build = await requestFaultBuild(home);
  await ledger.change(
    () => playFaultBuild(home, build),
    () => lookUp(state, "named local/faulty default", "tag local/faulty default"),
  );
}
