/**
 * The way of containers to the internet: one router for all containers of one folder, a network
 * namespace of its own that is made for the first of them and goes with the last. Everything is
 * found again by name, so another process can change and remove what this one made.
 */

import { randomInt } from "node:crypto";
import { rm, statfs, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { causeCode, SandboxError } from "../../common/errors.ts";
import { draftOf, readIfThere, writeWhole } from "../../common/files.ts";
import { z } from "../../common/schema.ts";
import type { EgressRules } from "../engine.ts";
import { claimsOf, releaseClaim, RUN_DIRECTORY, tryClaim } from "../host/claims.ts";
import { slotsOf } from "../host/id-ranges.ts";
import { readMounts } from "../host/mount-table.ts";
import { runProgram } from "../host/run-program.ts";
import { createEgressProgram, type EgressProgram } from "./egress-program.ts";
import {
  applyRules,
  changeLinks,
  deleteLink,
  listAddresses,
  listLinks,
  writeSettings,
  type NetworkPath,
} from "./namespace.ts";
import {
  linkName,
  MAX_ROUTERS,
  ROUTER_SETTINGS,
  routerLinks,
  routerRules,
  sandboxAddress,
  sandboxLinks,
  senderLinks,
  senderRemoval,
  senderRules,
} from "./router-rules.ts";
import { closeUplink, openUplink } from "./uplink.ts";

const ROUTERS = join(RUN_DIRECTORY, "routers");
const MAX_ATTEMPTS = 1_000;
/** NSFS_MAGIC: the file system of files that are namespaces. */
const NAMESPACE_TYPE = 0x6e_73_66_73;

/** What a router is made with, kept for whoever removes it. */
const factsSchema = z.object({
  /** File of the namespace that leads outside; null for the one of its maker. */
  outside: z.string().nullable(),
  resolvers: z.array(z.ipv4()),
  /** Addresses of the outside itself, when the router was made. */
  hosts: z.array(z.ipv4()),
  /** False until every part of it is there. */
  isReady: z.boolean(),
});

type RouterFacts = z.infer<typeof factsSchema>;

interface Router extends RouterFacts {
  readonly slot: number;
  /** File of its namespace. */
  readonly path: string;
}

/** A container as its router knows it. */
export interface Sender {
  readonly directory: string;
  /** The number of its id range. */
  readonly slot: number;
  /** PID of its first process. */
  readonly pid: number;
  isOver(): boolean;
}

/** Where a new router leads. */
export interface HostNetwork {
  readonly path: NetworkPath;
  /** IPv4 addresses of name servers that can be reached there. */
  readonly resolvers: readonly string[];
  /** File of the program for rules that name hosts. */
  readonly program: string;
  /** Where the perl programs lie. */
  readonly perlDirectory: string;
}

/**
 * Gives a container these rules, and its link if it has none yet. The rules are there first.
 * @throws SandboxError unavailable for names of hosts where nothing can answer them.
 */
export async function connectSender(
  sender: Sender,
  rules: EgressRules,
  outside: HostNetwork,
): Promise<void> {
  const { directory, slot, pid } = sender;
  await inTurn(dirname(directory), async () => {
    // Asked in turn: after a removal nothing may be made that nobody would remove.
    if (sender.isOver()) throw new SandboxError("unavailable", "container is gone");
    const router = await ensureRouter(dirname(directory), outside);
    await orderDomains(router, outside, { slot, domains: rules.domains });
    await applyRules(router.path, senderRules(slot, rules));
    if (rules.domains.length === 0) await forgetDomains(router, slot);
    if ((await listLinks(router.path)).includes(linkName(slot))) return;
    const network = `/proc/${pid}/ns/net`;
    await changeLinks(router.path, senderLinks(slot, network));
    await changeLinks(network, sandboxLinks(slot, router.resolvers.length));
  });
}

/** Takes every link and rule of a container's folder away, and the last one's router. Idempotent. */
export async function disconnectSender(directory: string): Promise<void> {
  const owner = dirname(directory);
  if ((await claimsOf(ROUTERS, owner)).length === 0) return;
  await inTurn(owner, async () => {
    const senders = await slotsOf(directory);
    for (const router of await routersOf(owner)) {
      if (!(await takeSenders(router, senders))) await removeRouter(router);
    }
  });
}

/** Says whether others are left. A router that was never finished, or whose namespace is gone, has none. */
async function takeSenders(router: Router, senders: readonly number[]): Promise<boolean> {
  if (!(await isUsable(router))) return false;
  const names = new Set(senders.map((slot) => linkName(slot)));
  const links = await listLinks(router.path);
  for (const name of names) await deleteLink(router.path, name);
  for (const slot of senders) {
    await applyRules(router.path, senderRemoval(slot));
    await forgetDomains(router, slot);
  }
  return links.some((name) => /^s\d+$/.test(name) && !names.has(name));
}

/** By the number of their router; a process has only those that it was asked for itself. */
const programs = new Map<number, EgressProgram>();

/** The names are known before the rules send anything to the program, and forgotten after. */
async function orderDomains(
  router: Router,
  { program, perlDirectory }: HostNetwork,
  { slot, domains }: { readonly slot: number; readonly domains: readonly string[] },
): Promise<void> {
  if (domains.length === 0) return;
  if (router.resolvers.length === 0) {
    throw new SandboxError("unavailable", "this machine has no name server for names of hosts", {
      hint: "name one with --dns",
    });
  }
  const running =
    programs.get(router.slot) ??
    createEgressProgram({ network: router.path, program, perlDirectory, ...router });
  programs.set(router.slot, running);
  await running.order(sandboxAddress(slot), domains);
}

async function forgetDomains(router: Router, slot: number): Promise<void> {
  await programs.get(router.slot)?.order(sandboxAddress(slot), undefined);
}

const turns = new Map<string, Promise<void>>();

/** Routers are made and removed one step at a time: the last container must not take a new one's. */
async function inTurn(owner: string, work: () => Promise<void>): Promise<void> {
  const before = turns.get(owner) ?? Promise.resolve();
  const turn = before.then(work);
  const settled = turn.catch(() => undefined);
  turns.set(owner, settled);
  try {
    await turn;
  } finally {
    if (turns.get(owner) === settled) turns.delete(owner);
  }
}

async function ensureRouter(owner: string, outside: HostNetwork): Promise<Router> {
  for (const router of await routersOf(owner)) {
    if (await isUsable(router)) return router;
    await removeRouter(router);
  }
  const slot = await claimSlot(owner);
  const router = {
    slot,
    path: join(ROUTERS, `${slot}.net`),
    outside: outside.path ?? null,
    resolvers: [...outside.resolvers],
    hosts: await listAddresses(outside.path),
    isReady: false,
  };
  try {
    await writeFacts(router);
    await makeRouter(router);
    await writeFacts({ ...router, isReady: true });
    return router;
  } catch (error) {
    await removeRouter(router);
    throw error;
  }
}

async function claimSlot(owner: string): Promise<number> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const slot = randomInt(MAX_ROUTERS);
    if (await tryClaim(ROUTERS, slot, owner)) return slot;
  }
  throw new SandboxError("resource_exhausted", "no number is free for a router", {
    hint: `remove the links in ${ROUTERS} whose folder does not exist`,
  });
}

async function makeRouter(router: Router): Promise<void> {
  const { path } = router;
  await writeFile(path, "", { mode: 0o600 });
  await runProgram(["unshare", `--net=${path}`, "true"]);
  await applyRules(path, routerRules(router));
  await writeSettings(path, ROUTER_SETTINGS);
  await openUplink(router.outside ?? undefined, router, path);
  await changeLinks(path, routerLinks(router));
}

async function removeRouter(router: Router): Promise<void> {
  const { slot, path, outside } = router;
  // Its namespace would live on in it.
  await programs.get(slot)?.stop();
  programs.delete(slot);
  // A namespace outside that is gone took its side of the link and its rules along.
  if (outside === null || (await isMounted(outside))) await closeUplink(outside ?? undefined, slot);
  if (await isMounted(path)) await runProgram(["umount", path]);
  await rm(path, { force: true });
  await rm(draftOf(factsPath(slot)), { force: true });
  await rm(factsPath(slot), { force: true });
  await releaseClaim(ROUTERS, slot);
}

/** Whether it was finished and its file still is a namespace, and not a file that somebody unmounted. */
async function isUsable({ isReady, path }: Router): Promise<boolean> {
  if (!isReady) return false;
  try {
    return (await statfs(path)).type === NAMESPACE_TYPE;
  } catch (error) {
    if (causeCode(error) === "ENOENT") return false;
    throw error;
  }
}

async function isMounted(path: string): Promise<boolean> {
  return (await readMounts()).some(({ target }) => target === path);
}

async function routersOf(owner: string): Promise<Router[]> {
  const slots = await claimsOf(ROUTERS, owner);
  return Promise.all(slots.map(async (slot) => readRouter(slot)));
}

/** A claim without facts is a router of which nothing was made yet. */
async function readRouter(slot: number): Promise<Router> {
  const text = await readIfThere(factsPath(slot));
  const unmade: RouterFacts = { outside: null, resolvers: [], hosts: [], isReady: false };
  const facts = parseFacts(text) ?? unmade;
  return { slot, path: join(ROUTERS, `${slot}.net`), ...facts };
}

/** A file that is cut or was changed says nothing: its router is made anew. */
function parseFacts(text: string | undefined): RouterFacts | undefined {
  if (text === undefined) return undefined;
  try {
    return factsSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

async function writeFacts({ slot, path: _path, ...facts }: Router): Promise<void> {
  await writeWhole(factsPath(slot), JSON.stringify(facts));
}

function factsPath(slot: number): string {
  return join(ROUTERS, `${slot}.json`);
}
