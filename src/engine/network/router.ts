/**
 * The way of containers to the internet: one router for all containers of one folder, a network
 * namespace of its own that is made for the first of them and goes with the last. Everything is
 * found again by name, so another process can change and remove what this one made.
 */

import { rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { createTurns, type Turns } from "../../common/turns.ts";
import type { Egress, EgressRules } from "../engine.ts";
import { slotOf, slotsOf } from "../host/id-ranges.ts";
import { readMounts } from "../host/mount-table.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { runProgram } from "../host/run-program.ts";
import type { ContainerRecord } from "../oci/container-record.ts";
import { createEgressProgram } from "./egress-program.ts";
import { toCanonical } from "./egress.ts";
import { endConnections } from "./end-connections.ts";
import { followOutside, type Followed } from "./follow-outside.ts";
import { forgetConnections } from "./forget-connections.ts";
import type { HostNetwork } from "./host-network.ts";
import { takeMovedRouters } from "./moved-router.ts";
import { networkFile } from "./namespace-file.ts";
import { applyRules, listLinks, makeNetwork } from "./namespace.ts";
import { createRightsCheck } from "./network-rights.ts";
import { readHosts } from "./own-addresses.ts";
import { routerParts } from "./router-links.ts";
import {
  claimRouter,
  forgetRouter,
  hasRouter,
  isUsable,
  namespacePath,
  routersOf,
  writeRouter,
  type Router,
} from "./router-record.ts";
import { linkName, sandboxAddress, senderRules } from "./router-rules.ts";
import { connectSender, removeSenders } from "./senders.ts";
import { closeUplink, openUplink } from "./uplink.ts";
import { createRuleWatches, type RuleWatches } from "./watch-rules.ts";

/** The program for names has an account of its own for each router, above the ids of all containers. */
const FIRST_PROGRAM_USER = 2_000_000_000;

/** The container whose rules are set. */
export interface EgressTarget {
  readonly directory: string;
  readonly record: ContainerRecord;
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
}

export interface Routers {
  /** Whether links and rules are there still when the process that made them is not. */
  readonly outlivesProcess: boolean;
  /** Whether they have gone all the same, for a container of an earlier process. */
  hasLost(target: Pick<EgressTarget, "directory" | "record">): Promise<boolean>;
  /**
   * Connects the container under these rules, changes the rules of its link, or takes the link away,
   * as wherever containers have loopback alone by now.
   * @throws SandboxError invalid_argument for what is no IPv4 network, unavailable when it is gone
   * and for hostnames where nothing can answer them.
   */
  setEgress(target: EgressTarget, egress: Egress): Promise<void>;
  /** Takes every link and rule of a container's folder away, and the last one's router. Idempotent. */
  disconnect(directory: string): Promise<void>;
}

interface State extends Followed {
  readonly perlDirectory: string;
  /** By the folder of their containers: the last one must not take a new one's router. */
  readonly turns: Turns;
  /** By the same folder: the links of containers that an earlier process left. */
  readonly leftLinks: Map<string, ReadonlySet<string>>;
  readonly watches: RuleWatches;
}

/** One object for all containers of an engine: it keeps the steps of one router in order. */
export function createRouters(perlDirectory: string, log?: Logger): Routers {
  const turns = createTurns();
  const mayChange = createRightsCheck(log);
  const state: State = {
    perlDirectory,
    programs: new Map(),
    turns,
    leftLinks: new Map(),
    followed: new Map(),
    watches: createRuleWatches(turns, log),
  };
  return {
    outlivesProcess: true,
    async hasLost({ directory, record }) {
      const owner = dirname(directory);
      await state.turns.run(owner, async () => {
        // Read once: a router that is made for the first of them has no link of the others.
        if (state.leftLinks.has(owner)) return;
        await takeMovedRouters(owner);
        state.leftLinks.set(owner, await linksOf(owner));
        state.watches.start(owner, { isNew: false });
      });
      return state.leftLinks.get(owner)?.has(linkName(slotOf(record.idBase))) !== true;
    },
    async setEgress(target, egress) {
      const rules = toCanonical(egress);
      const { outside, record, directory } = target;
      if (outside === undefined && !(await hasLink(target))) return;
      if (outside === undefined || (rules === "none" && !keepsLinks(record))) {
        await disconnect(state, directory);
        await endConnections(record, sandboxAddress(slotOf(record.idBase)));
      } else await connect(state, { ...target, outside }, rules);
    },
    async disconnect(directory) {
      const owner = dirname(directory);
      if (!(await hasRouter(owner))) await state.turns.run(owner, () => takeMovedRouters(owner));
      if ((await hasRouter(owner)) && mayChange()) await disconnect(state, directory);
    },
  };
}

/** A kernel of its own takes over the links that it finds when it starts, and never sees another. */
function keepsLinks({ level }: ContainerRecord): boolean {
  return level === "gvisor";
}

/** What a container with a link may reach when it may reach nothing. */
const NOTHING: EgressRules = { allow: [], deny: ["0.0.0.0/0"], domains: [] };

/**
 * Gives a container these rules, and its link if it has none yet. The rules are there first. With
 * `none` its router refuses whatever comes by the link.
 */
async function connect(
  state: State,
  target: EgressTarget & { readonly outside: HostNetwork },
  wanted: EgressRules | "none",
): Promise<void> {
  const { directory, record, outside } = target;
  const { pid, startTicks, idBase } = record;
  const rules = wanted === "none" ? NOTHING : wanted;
  const slot = slotOf(idBase);
  await state.turns.run(dirname(directory), async () => {
    // Checked in turn: after a removal nothing may be made that is never removed.
    if (!keepsLinks(record) && readStartTicks(pid) !== startTicks) {
      throw new SandboxError("unavailable", "container is gone");
    }
    const router = await ensureRouter(state, dirname(directory), outside);
    await orderDomains(state, { router, outside }, { slot, ...rules });
    if (keepsLinks(record) && startTicks !== "") {
      await applyRules(router.path, senderRules(slot, rules));
      if (!(await listLinks(router.path)).includes(linkName(slot))) {
        throw new SandboxError("unavailable", "the container's link has gone", {
          hint: "pause the sandbox without its memory and connect to it",
        });
      }
    } else {
      const network = keepsLinks(record) ? networkFile(directory) : `/proc/${pid}/ns/net`;
      const place = { router: router.path, slot, network };
      await connectSender({ ...place, resolverCount: router.resolvers.length }, rules);
    }
    if (rules.domains.length === 0) await forgetDomains(state, router, slot);
  });
}

/** The links of a router that cannot be used have gone with it. */
async function linksOf(owner: string): Promise<ReadonlySet<string>> {
  const links = new Set<string>();
  for (const router of await routersOf(owner)) {
    if (!(await isUsable(router))) continue;
    for (const name of await listLinks(router.path)) links.add(name);
  }
  return links;
}

async function hasLink({ directory, record }: EgressTarget): Promise<boolean> {
  return (await linksOf(dirname(directory))).has(linkName(slotOf(record.idBase)));
}

async function disconnect(state: State, directory: string): Promise<void> {
  const owner = dirname(directory);
  await state.turns.run(owner, async () => {
    const senders = await slotsOf(directory);
    for (const router of await routersOf(owner)) {
      if (!(await takeSenders(state, router, senders))) await removeRouter(state, router);
    }
  });
}

/** Says whether others are left. A router that was never finished, or whose namespace is gone, has none. */
async function takeSenders(
  state: State,
  router: Router,
  senders: readonly number[],
): Promise<boolean> {
  if (!(await isUsable(router))) return false;
  const hasOthers = await removeSenders(router.path, senders);
  for (const slot of senders) {
    await forgetDomains(state, router, slot);
    await forgetConnections(state.perlDirectory, router, sandboxAddress(slot));
  }
  return hasOthers;
}

/** The names are known before the rules send anything to the program, and forgotten after. */
async function orderDomains(
  { programs }: State,
  { router, outside }: { readonly router: Router; readonly outside: HostNetwork },
  { slot, domains }: { readonly slot: number; readonly domains: readonly string[] },
): Promise<void> {
  if (domains.length === 0) return;
  requireResolver(router.resolvers);
  const { program, perlDirectory } = outside;
  const user = FIRST_PROGRAM_USER + router.slot;
  const running =
    programs.get(router.slot) ??
    createEgressProgram({ network: router.path, user, program, perlDirectory, ...router });
  programs.set(router.slot, running);
  await running.order(sandboxAddress(slot), domains);
}

/** @throws SandboxError unavailable where rules for hostnames cannot hold. */
export function requireResolver(resolvers: readonly string[]): void {
  if (resolvers.length > 0) return;
  throw new SandboxError("unavailable", "this machine has no name server for hostnames", {
    hint: "name one with --dns",
  });
}

async function forgetDomains({ programs }: State, router: Router, slot: number): Promise<void> {
  await programs.get(router.slot)?.order(sandboxAddress(slot), undefined);
}

async function ensureRouter(state: State, owner: string, outside: HostNetwork): Promise<Router> {
  for (const router of await routersOf(owner)) {
    if (await isUsable(router)) return followOutside(state, router, outside);
    await removeRouter(state, router);
  }
  const slot = await claimRouter(owner);
  const router = {
    slot,
    path: namespacePath(slot),
    outside: outside.path ?? null,
    resolvers: [...outside.resolvers],
    hosts: [...(await readHosts(outside.path))],
    isReady: false,
  };
  try {
    await writeRouter(router);
    await makeRouter(router);
    await writeRouter({ ...router, isReady: true });
    state.followed.set(slot, outside.changes);
    state.watches.start(owner, { isNew: true });
    return router;
  } catch (error) {
    await removeRouter(state, router);
    throw error;
  }
}

async function makeRouter(router: Router): Promise<void> {
  const { path } = router;
  await writeFile(path, "", { mode: 0o600 });
  await makeNetwork(path, routerParts(router));
  await openUplink(router.outside ?? undefined, router, path);
}

async function removeRouter({ programs, followed }: State, router: Router): Promise<void> {
  const { slot, path, outside } = router;
  // Its namespace would live on in it.
  await programs.get(slot)?.stop();
  programs.delete(slot);
  followed.delete(slot);
  // A namespace outside that is gone took its side of the link and its rules along.
  if (outside === null || (await isMounted(outside))) await closeUplink(outside ?? undefined, slot);
  if (await isMounted(path)) await runProgram(["umount", path]);
  await rm(path, { force: true });
  await forgetRouter(slot);
}

async function isMounted(path: string): Promise<boolean> {
  return (await readMounts()).some(({ target }) => target === path);
}
