/** What a service was told and has acknowledged, and what it shows: both must agree after every call. */

import { createHash } from "node:crypto";
import { z } from "../../../src/common/schema.ts";
import { KEPT } from "../faults/fault-cases.ts";
import { listAll, type FaultHome } from "../faults/fault-home.ts";
import { askVolume, type VolumeAccess } from "../faults/volume-access.ts";
import { startProgram } from "../program.ts";

/** What is not there. */
export const GONE = "gone";

/** A thing and the value that it has. */
export type Effect = readonly [thing: string, value: string];

export interface Model {
  /** The values that each thing may have. */
  readonly things: Map<string, readonly string[]>;
  /** Of volumes, by their ids. */
  readonly tokens: Map<string, VolumeAccess>;
}

export interface World {
  readonly home: FaultHome;
  readonly model: Model;
}

export function createModel(): Model {
  return { things: new Map(), tokens: new Map() };
}

export function hashOf(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 16);
}

const volumesSchema = z.array(z.object({ volumeID: z.string(), name: z.string() }));
const snapshotsSchema = z.array(z.object({ names: z.array(z.string()) }));
const templatesSchema = z.array(z.object({ names: z.array(z.string()) }));

/** What its lists say. */
async function lookAtLists(home: FaultHome): Promise<Map<string, string>> {
  const seen = new Map<string, string>();
  for (const { sandboxID, state } of await listAll(home)) seen.set(`sandbox ${sandboxID}`, state);
  const volumes = volumesSchema.parse((await home.call("GET", "/volumes"))?.body);
  for (const { volumeID, name } of volumes) seen.set(`volume ${volumeID}`, name);
  const shots = snapshotsSchema.parse((await home.call("GET", "/snapshots?limit=100"))?.body);
  const templates = templatesSchema.parse((await home.call("GET", "/templates"))?.body);
  for (const { names } of [...shots, ...templates]) {
    for (const name of names) seen.set(`template ${name}`, "there");
  }
  return seen;
}

/** Readers of what no list tells, by the first word of a thing. */
const READERS: Readonly<
  Record<string, (world: World, first: string, second: string) => Promise<string>>
> = {
  /** The file that each sandbox has; a paused one is woken. */
  text: async ({ home }, id) => {
    await home.call("POST", `/sandboxes/${id}/connect`, { timeout: 3600 });
    const answer = await home.enter(id, KEPT.path);
    return answer?.status === 200 ? hashOf(String(answer.body)) : `${answer?.status}`;
  },
  /** What is in that file of a sandbox that starts from a template. */
  shot: async (world, name) => {
    const { home } = world;
    const body = { templateID: name, timeout: 3600, secure: false };
    const made = await home.call("POST", "/sandboxes", body);
    const id = /"sandboxID":"([^"]+)"/.exec(JSON.stringify(made?.body) ?? "")?.[1];
    if (id === undefined) return JSON.stringify(made);
    const text = await READERS["text"]?.(world, id, "");
    await home.call("DELETE", `/sandboxes/${id}`);
    return text ?? "";
  },
  file: async ({ home, model }, volumeId, path) => {
    const access = model.tokens.get(volumeId);
    if (access === undefined) return GONE;
    const { status, text } = await askVolume(home, access, { path });
    return status === 200 ? hashOf(text) : status === 404 ? GONE : `${status} ${text}`;
  },
  key: async ({ home }, name) => {
    await using list = startProgram(["key", "list", "--home", home.path]);
    const lines: Buffer[] = [];
    list.stdout.on("data", (chunk: Buffer) => lines.push(chunk));
    await list.exited();
    return Buffer.concat(lines).toString().includes(`  ${name}\n`) ? "there" : GONE;
  },
  tag: async ({ home }, name, tag) => {
    const answer = await home.call("GET", `/templates/${name}/tags`);
    return JSON.stringify(answer?.body).includes(`"tag":"${tag}"`) ? "there" : GONE;
  },
  ends: async ({ home }, id) => {
    const found = (await listAll(home)).find(({ sandboxID }) => sandboxID === id);
    return found === undefined
      ? GONE
      : `${Math.round((Date.parse(found.endAt) - Date.now()) / 3_600_000)} h`;
  },
};

/** What goes with which thing of a list. */
const OWNERS: Readonly<Record<string, string>> = {
  text: "sandbox ",
  ends: "sandbox ",
  file: "volume ",
  shot: "template local/",
  tag: "template local/",
};

/** Whether a list of the service shows it. */
const isListed = (thing: string) => /^(?:sandbox|volume|template) /.test(thing);

/** Where lists and model differ, one line each; what a thing was seen as is all that it may be from then on. */
export async function compareLists({ home, model }: World): Promise<string[]> {
  const { things } = model;
  const seen = await lookAtLists(home);
  const faults: string[] = [];
  for (const [thing, value] of seen) {
    if (!things.has(thing)) faults.push(`${thing} is ${value}, and nobody was told`);
  }
  for (const [thing, allowed] of things) {
    if (!isListed(thing)) continue;
    const value = seen.get(thing) ?? GONE;
    if (!allowed.includes(value)) faults.push(`${thing} is ${value}, not ${allowed.join(" or ")}`);
    things.set(thing, [value]);
  }
  return faults;
}

/** The same of contents, which are read one by one. */
export async function compareContents(world: World): Promise<string[]> {
  const { model } = world;
  const faults: string[] = [];
  for (const [thing, allowed] of model.things) {
    const [kind = "", first = "", second = ""] = thing.split(" ");
    const reader = READERS[kind];
    const owner = `${OWNERS[kind]}${first}`;
    const isOver = model.things.get(owner)?.every((value) => value === GONE) ?? false;
    if (reader === undefined || isOver) continue;
    const value = await reader(world, first, second);
    if (!allowed.includes(value)) faults.push(`${thing} is ${value}, not ${allowed.join(" or ")}`);
    model.things.set(thing, [value]);
  }
  return faults;
}

/** Notes what a call has changed: for certain, or perhaps. */
export function note(model: Model, effects: readonly Effect[], isCertain: boolean): void {
  for (const [thing, value] of effects) {
    const before = model.things.get(thing) ?? [GONE];
    model.things.set(thing, isCertain ? [value] : [...new Set([...before, value])]);
  }
}
