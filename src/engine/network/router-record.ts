/**
 * What is known of routers: a number of this machine for each, claimed by the folder whose containers
 * it serves, and a file with what it was made with. Any process finds a router by them.
 */

import { randomInt } from "node:crypto";
import { rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { draftOf, ifThere, isThere, readIfThere, writeWhole } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import {
  claimsOf,
  ownersOf,
  passClaim,
  releaseClaim,
  RUN_DIRECTORY,
  tryClaim,
} from "../host/id-ranges.ts";
import { NAMESPACE_TYPE } from "./namespace-file.ts";
import { mountFromElsewhere } from "./other-namespaces.ts";
import { MAX_ROUTERS } from "./router-rules.ts";

const ROUTERS = join(RUN_DIRECTORY, "routers");
const MAX_ATTEMPTS = 1_000;

/** What a router is made with, kept for the process that removes it. */
const factsSchema = z.object({
  /** File of the namespace that leads outside; null for the one of its maker. */
  outside: z.string().nullable(),
  resolvers: z.array(z.ipv4()),
  /** Addresses of the outside itself, when the router was made. */
  hosts: z.array(z.ipv4()),
  /** Whole networks of the outside: an earlier version makes a router anew that has them among its addresses. */
  networks: z.array(z.cidrv4()).default([]),
  /** False until every part of it is there. */
  isReady: z.boolean(),
});

type RouterFacts = Omit<z.infer<typeof factsSchema>, "networks">;

/** Its `hosts` are addresses or networks. */
export interface Router extends RouterFacts {
  readonly slot: number;
  /** File of its namespace. */
  readonly path: string;
}

/** Claims a number for a router of this folder's containers. */
export async function claimRouter(owner: string): Promise<number> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const slot = randomInt(MAX_ROUTERS);
    if (await tryClaim(ROUTERS, slot, owner)) return slot;
  }
  throw new SandboxError("resource_exhausted", "no number is free for a router", {
    hint: `remove the links in ${ROUTERS} whose folder does not exist`,
  });
}

/** Whether a folder has a router, finished or not. */
export async function hasRouter(owner: string): Promise<boolean> {
  return (await claimsOf(ROUTERS, owner)).length > 0;
}

/** The routers of a folder, finished or not. */
export async function routersOf(owner: string): Promise<Router[]> {
  const slots = await claimsOf(ROUTERS, owner);
  return Promise.all(slots.map(async (slot) => readRouter(slot)));
}

/** The routers whose folder is not there, each with that folder. */
export async function routersWithoutFolder(): Promise<{ owner: string; router: Router }[]> {
  const lost: { owner: string; router: Router }[] = [];
  for (const [slot, owner] of await ownersOf(ROUTERS)) {
    if (!(await isThere(owner))) lost.push({ owner, router: await readRouter(slot) });
  }
  return lost;
}

/** Gives the number of a router to another folder. */
export async function passRouter(slot: number, owner: string): Promise<void> {
  await passClaim(ROUTERS, slot, owner);
}

/** Whether a router was finished and its namespace is here, or could be mounted here. */
export async function isUsable(router: Router): Promise<boolean> {
  if (!router.isReady || !(await isThere(router.path))) return false;
  if (await isNamespace(router)) return true;
  return (await mountFromElsewhere(router.path)) && isNamespace(router);
}

/**
 * A claim without facts is a router of which nothing was made yet. A file that is cut or was changed
 * says nothing: its router is made anew.
 */
async function readRouter(slot: number): Promise<Router> {
  const text = await readIfThere(recordPath(slot));
  const unmade = { outside: null, resolvers: [], hosts: [], networks: [], isReady: false };
  const { data = unmade } = factsSchema.safeParse(tryParseJson(text ?? ""));
  const { networks, hosts, ...facts } = data;
  return { slot, path: namespacePath(slot), ...facts, hosts: [...hosts, ...networks] };
}

export async function writeRouter({ slot, path: _path, ...facts }: Router): Promise<void> {
  const all = facts.hosts.map((host) => host.replace(/\/32$/, ""));
  const hosts = all.filter((host) => !host.includes("/"));
  const networks = all.filter((host) => host.includes("/"));
  await writeWhole(recordPath(slot), JSON.stringify({ ...facts, hosts, networks }));
}

/** Removes the record and gives the number back. */
export async function forgetRouter(slot: number): Promise<void> {
  await rm(draftOf(recordPath(slot)), { force: true });
  await rm(recordPath(slot), { force: true });
  await releaseClaim(ROUTERS, slot);
}

/** Else it is an unmounted file. */
async function isNamespace({ path }: Router): Promise<boolean> {
  return (await ifThere(statfs(path)))?.type === NAMESPACE_TYPE;
}

export function namespacePath(slot: number): string {
  return join(ROUTERS, `${slot}.net`);
}

function recordPath(slot: number): string {
  return join(ROUTERS, `${slot}.json`);
}
