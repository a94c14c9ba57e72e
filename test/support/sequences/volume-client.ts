/**
 * A client that makes, fills, mounts and removes volumes at random beside others, and compares every
 * answer with what it may be. Its choices follow from its seed alone.
 */

import { setTimeout as delay } from "node:timers/promises";
import { z } from "../../../src/common/schema.ts";
import type { Answer } from "../faults/fault-home.ts";
import { volumeSchema } from "../faults/volume-access.ts";
import type { ActRandom } from "./act-random.ts";
import { askContent, checkContent, inTwoParts, type ContentCall } from "./volume-content.ts";
import { FOLDER, PATHS, VolumeModel } from "./volume-model.ts";
import { ask, SequenceFault, type SequenceWorld } from "./world.ts";

const SLOTS = 3;
const MAX_PAUSE_MS = 200;
const SIZES = [1, 3_000, 300_000];
const createdSchema = z.object({ sandboxID: z.string() });
const listedSchema = z.array(z.object({ volumeID: z.string(), name: z.string() }));
const entriesSchema = z.array(z.object({ path: z.string(), type: z.string() }));
const forksSchema = z.array(z.object({ sandbox: createdSchema.optional() }));

export interface VolumeWorld extends SequenceWorld {
  readonly volumes: VolumeModel[];
}

interface Own {
  readonly id: string;
  readonly volumes: readonly VolumeModel[];
  isRunning: boolean;
}

export class VolumeClient {
  readonly #world: VolumeWorld;
  readonly #random: ActRandom;
  readonly #name: string;
  #own: Own | undefined;
  #writes = 0;

  constructor(world: VolumeWorld, random: ActRandom, name: string) {
    this.#world = world;
    this.#random = random;
    this.#name = name;
  }

  async run(): Promise<void> {
    while (this.#world.calls < this.#world.maxCalls) {
      this.#random.nextAct();
      await this.#random.pick(this.#acts)();
    }
  }

  readonly #acts = [
    () => this.#create(),
    () => this.#create(),
    () => this.#list(),
    () => this.#remove(),
    () => this.#put(),
    () => this.#put(),
    () => this.#put(),
    () => this.#putCut(),
    () => this.#get(),
    () => this.#get(),
    () => this.#get(),
    () => this.#removePath(),
    () => this.#listFolder(),
    () => this.#change(),
    () => this.#makeSandbox(),
    () => this.#readInside(),
    () => this.#readInside(),
    () => this.#writeInside(),
    () => this.#readWritten(),
    () => this.#switch(),
    () => this.#fork(),
    () => this.#endSandbox(),
  ];

  /** The newest one of a slot: all choices are made before it is known whether there is one. */
  #pick(): VolumeModel | undefined {
    const slot = this.#random.below(SLOTS);
    return this.#world.volumes.findLast((volume) => volume.slot === slot);
  }

  #ask(words: string, statuses: readonly number[], call: () => Promise<Answer | undefined>) {
    return ask(this.#world, { words: `${this.#name} ${words}`, statuses }, call);
  }

  /** The route is a method and a path. */
  #call(route: string, statuses: readonly number[], body?: unknown) {
    const [method = "", path = ""] = route.split(" ");
    const words = `${route} ${JSON.stringify(body) ?? ""}`;
    return this.#ask(words, statuses, () => this.#world.home.call(method, path, body));
  }

  #content(volume: VolumeModel, call: ContentCall, statuses: readonly number[]) {
    return askContent(this.#world, { by: this.#name, volume, statuses }, call);
  }

  #add(body: unknown, slot: number): void {
    const { volumeID: id, token } = volumeSchema.parse(body);
    const { volumes, moments } = this.#world;
    // Another client may have found it in the list.
    if (volumes.some((volume) => volume.id === id)) return;
    volumes.push(new VolumeModel({ id, token, slot }, moments));
  }

  async #create(): Promise<void> {
    const slot = this.#random.below(SLOTS);
    const answer = await this.#call("POST /volumes", [201, 400], { name: `v${slot}` });
    if (answer?.status === 201) this.#add(answer.body, slot);
  }

  /** Whatever is there is listed; also what a create made whose answer was lost. */
  async #list(): Promise<void> {
    const { moments, volumes } = this.#world;
    const beganAt = moments.next();
    const known = [...volumes];
    const answer = await this.#call("GET /volumes", [200]);
    if (answer === undefined) return;
    const listed = listedSchema.parse(answer.body);
    for (const volume of known) {
      const isListed = listed.some(({ volumeID }) => volumeID === volume.id);
      if (isListed ? volume.goneAt < beganAt : !volume.mayBeGone())
        throw new SequenceFault(`volume ${volume.id} is listed: ${isListed}`);
    }
    for (const { volumeID, name } of listed) {
      if (volumes.some(({ id }) => id === volumeID)) continue;
      const found = await this.#call(`GET /volumes/${volumeID}`, [200, 404]);
      if (found?.status === 200) this.#add(found.body, Number(name.slice(1)));
    }
  }

  async #remove(): Promise<void> {
    const volume = this.#pick();
    if (!this.#random.once(3) || volume === undefined) return;
    const { mounts, mayMount, mountChanges } = volume;
    volume.removals += 1;
    const answer = await this.#call(`DELETE /volumes/${volume.id}`, [204, 404, 409]);
    if (answer === undefined) return;
    volume.removals -= 1;
    const isQuiet = volume.mountChanges === mountChanges;
    const isWrong =
      (answer.status === 404 && !volume.mayBeGone()) ||
      (answer.status === 204 && isQuiet && mounts > 0) ||
      (answer.status === 409 && isQuiet && mounts + mayMount === 0);
    if (isWrong) throw new SequenceFault(`removal of ${volume.id}: ${answer.status}`);
    if (answer.status !== 409) volume.goneAt = Math.min(volume.goneAt, this.#world.moments.next());
  }

  #text(): string {
    this.#writes += 1;
    return `${this.#name}.${this.#writes}:${"x".repeat(this.#random.pick(SIZES))}`;
  }

  async #put(): Promise<void> {
    const [volume, path, text] = [this.#pick(), this.#random.pick(PATHS), this.#text()];
    const pauseMs = this.#random.once(3) ? this.#random.below(MAX_PAUSE_MS) : undefined;
    if (volume === undefined) return;
    const change = volume.files.get(path)?.begin(text);
    const body = pauseMs === undefined ? text : inTwoParts(text, async () => delay(pauseMs));
    const call = { method: "PUT", kind: "file", path, query: { force: "true" }, body } as const;
    const answer = await this.#content(volume, call, [201]);
    if (answer === undefined) change?.unsure();
    else if (answer.status === 201) change?.done();
    else change?.undone();
    // Only the removal of the directory above it can be in its way.
    if (answer?.status === 404 && !answer.isGone && !path.startsWith(FOLDER))
      throw new SequenceFault(`${path} cannot be written: ${answer.text}`);
  }

  /** A client that leaves changes nothing. */
  async #putCut(): Promise<void> {
    const [volume, path, text] = [this.#pick(), this.#random.pick(PATHS), this.#text()];
    const pauseMs = this.#random.below(MAX_PAUSE_MS);
    if (volume === undefined) return;
    const left = new AbortController();
    const body = inTwoParts(text, async () => {
      await delay(pauseMs);
      left.abort();
      throw new Error("the client leaves");
    });
    const search = new URLSearchParams({ path, force: "true" });
    const { apiUrl } = this.#world.home.client();
    const url = `${apiUrl}/volumecontent/${volume.id}/file?${search.toString()}`;
    const headers = { authorization: `Bearer ${volume.token}` };
    const init = { method: "PUT", headers, body, duplex: "half", signal: left.signal } as const;
    const reply = await fetch(url, init).catch(() => undefined);
    this.#world.done.push(`${this.#name} cut PUT v${volume.slot} ${path} -> ${reply?.status}`);
    if (reply?.status === 201) throw new SequenceFault(`half of ${path} was taken`);
  }

  async #get(): Promise<void> {
    const [volume, path] = [this.#pick(), this.#random.pick(PATHS)];
    if (volume === undefined) return;
    const beganAt = this.#world.moments.next();
    const answer = await this.#content(volume, { method: "GET", kind: "file", path }, [200]);
    if (answer === undefined || answer.isGone) return;
    checkContent(volume, { path, beganAt }, answer.status === 404 ? undefined : answer.text);
  }

  async #removePath(): Promise<void> {
    const [volume, path] = [this.#pick(), this.#random.pick([FOLDER, ...PATHS])];
    if (volume === undefined) return;
    const beganAt = this.#world.moments.next();
    const changes = volume.below(path).map((register) => register.begin(undefined));
    const answer = await this.#content(volume, { method: "DELETE", kind: "path", path }, [204]);
    for (const change of changes) {
      if (answer === undefined) change.unsure();
      else if (answer.status === 204) change.done();
      else change.undone();
    }
    if (answer?.status === 404 && !answer.isGone && path !== FOLDER)
      checkContent(volume, { path, beganAt }, undefined);
  }

  async #listFolder(): Promise<void> {
    const volume = this.#pick();
    if (volume === undefined) return;
    const beganAt = this.#world.moments.next();
    const call = { method: "GET", kind: "dir", path: "/", query: { depth: "3" } } as const;
    const answer = await this.#content(volume, call, [200]);
    if (answer === undefined || answer.isGone) return;
    if (answer.status === 404) throw new SequenceFault(`no top of ${volume.id}: ${answer.text}`);
    const listed = entriesSchema.parse(JSON.parse(answer.text)).map((entry) => entry.path);
    for (const [path, register] of volume.files) {
      const isThere = [...register.possible(beganAt)].map((content) => content !== undefined);
      if (!isThere.includes(listed.includes(path)))
        throw new SequenceFault(`${path} in the list of ${volume.id}: ${listed.includes(path)}`);
    }
    const strange = listed.filter(
      (path) => path !== FOLDER && !volume.files.has(path) && !path.startsWith("/in-"),
    );
    if (strange.length > 0) throw new SequenceFault(`strange entries: ${strange.join(" ")}`);
  }

  async #change(): Promise<void> {
    const [volume, path] = [this.#pick(), this.#random.pick(PATHS)];
    const isFolder = this.#random.once(2);
    if (volume === undefined) return;
    const query = { force: "true" };
    if (isFolder)
      await this.#content(volume, { method: "POST", kind: "dir", path: FOLDER, query }, [201]);
    else {
      const body = JSON.stringify({ mode: 0o600, uid: 1000 });
      await this.#content(volume, { method: "PATCH", kind: "path", path, body }, [200]);
    }
  }

  async #makeSandbox(): Promise<void> {
    const wanted = [...new Set([this.#pick(), this.#pick()])].filter((one) => one !== undefined);
    if (this.#own !== undefined || wanted.length === 0) return;
    for (const volume of wanted) {
      volume.mayMount += 1;
      volume.mountChanges += 1;
    }
    const volumeMounts = wanted.map(({ slot }) => ({ name: `v${slot}`, path: `/data/v${slot}` }));
    const body = { templateID: "base", timeout: 3600, secure: false, volumeMounts };
    const answer = await this.#call("POST /sandboxes", [201, 400], body);
    // Its name may mean a newer volume by now, and without an answer it may be there: so it stays.
    const isSure = answer?.status === 201;
    const surely = wanted.filter((volume) => !volume.mayBeGone());
    if (answer?.status === 400 && surely.length === wanted.length)
      throw new SequenceFault(`no sandbox with volumes that are there: ${JSON.stringify(answer)}`);
    for (const volume of wanted) {
      volume.mountChanges += 1;
      if (answer !== undefined) volume.mayMount -= 1;
      if (isSure && surely.includes(volume)) volume.mounts += 1;
      else if (isSure) volume.mayMount += 1;
    }
    if (!isSure) return;
    const { sandboxID: id } = createdSchema.parse(answer.body);
    this.#own = { id, volumes: surely, isRunning: true };
  }

  /** Writes a file inside, or reads it. */
  #enter(own: Own, path: string, upload?: string) {
    const wanted = `/files?username=user&path=${path}`;
    const { home } = this.#world;
    return this.#ask(`${upload ?? "read"} inside ${own.id} ${path}`, [200, 404], () =>
      home.enter(own.id, wanted, upload),
    );
  }

  async #readInside(): Promise<void> {
    const path = this.#random.pick(PATHS);
    const own = this.#own;
    const [volume] = own?.volumes ?? [];
    if (own?.isRunning !== true || volume === undefined) return;
    const beganAt = this.#world.moments.next();
    const answer = await this.#enter(own, `/data/v${volume.slot}${path}`);
    if (answer === undefined) return;
    checkContent(
      volume,
      { path, beganAt },
      answer.status === 404 ? undefined : String(answer.body),
    );
  }

  async #writeInside(): Promise<void> {
    const text = this.#text().slice(0, 100);
    const own = this.#own;
    const [volume] = own?.volumes ?? [];
    if (own?.isRunning !== true || volume === undefined) return;
    const path = `/in-${this.#name}-${this.#writes}`;
    const answer = await this.#enter(own, `/data/v${volume.slot}${path}`, text);
    if (answer?.status === 404) throw new SequenceFault(`${path} cannot be written inside`);
    if (answer !== undefined) volume.inside.set(path, text);
  }

  /** What a sandbox wrote, the service reads. */
  async #readWritten(): Promise<void> {
    const volume = this.#pick();
    const [path, text] = [...(volume?.inside ?? [])].at(-1) ?? [];
    if (volume === undefined || path === undefined) return;
    const answer = await this.#content(volume, { method: "GET", kind: "file", path }, [200]);
    if (answer === undefined || answer.isGone || answer.text === text) return;
    throw new SequenceFault(`${path} of a sandbox is ${answer.text.slice(0, 200)}`);
  }

  async #switch(): Promise<void> {
    const keepsMemory = this.#random.once(2);
    const own = this.#own;
    if (own === undefined) return;
    const wasRunning = own.isRunning;
    own.isRunning = false;
    const path = `/sandboxes/${own.id}/${wasRunning ? "pause" : "connect"}`;
    const body = wasRunning ? { memory: keepsMemory } : { timeout: 3600 };
    const answer = await this.#call(`POST ${path}`, wasRunning ? [204, 409] : [200, 201], body);
    if (answer !== undefined) own.isRunning = !wasRunning;
  }

  /** The fork has the volumes too; it ends at once. */
  async #fork(): Promise<void> {
    const own = this.#own;
    if (own?.isRunning !== true || !this.#random.once(3)) return;
    for (const volume of own.volumes) volume.mayMount += 1;
    const path = `/sandboxes/${own.id}/fork`;
    const answer = await this.#call(`POST ${path}`, [201], { timeout: 3600 });
    if (answer === undefined) return;
    const { sandbox } = forksSchema.parse(answer.body)[0] ?? {};
    if (sandbox === undefined)
      throw new SequenceFault(`no fork: ${JSON.stringify(answer.body)?.slice(0, 300)}`);
    const ended = await this.#call(`DELETE /sandboxes/${sandbox.sandboxID}`, [204]);
    if (ended === undefined) return;
    for (const volume of own.volumes) {
      volume.mayMount -= 1;
      volume.mountChanges += 1;
    }
  }

  async #endSandbox(): Promise<void> {
    const own = this.#own;
    if (own === undefined || !this.#random.once(2)) return;
    this.#own = undefined;
    for (const volume of own.volumes) {
      volume.mounts -= 1;
      volume.mayMount += 1;
      volume.mountChanges += 1;
    }
    const answer = await this.#call(`DELETE /sandboxes/${own.id}`, [204]);
    for (const volume of own.volumes) {
      volume.mountChanges += 1;
      if (answer !== undefined) volume.mayMount -= 1;
    }
  }
}
