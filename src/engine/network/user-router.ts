/**
 * The way of an ordinary user's containers to the internet: a router with the rules of every other
 * one, whose link to the internet is a program of the user. Its namespace has no name: a descriptor of this
 * process keeps it, so that router, rules and links end with the process, however that ends.
 */

import { open, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { ID_RANGE, NAMESPACE_ID_BASE } from "../../common/privilege.ts";
import { createTurns, type Turns } from "../../common/turns.ts";
import type { EgressRules } from "../engine.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { runProgram } from "../host/run-program.ts";
import { createEgressProgram, type EgressProgram } from "./egress-program.ts";
import { toCanonical } from "./egress.ts";
import { endConnections } from "./end-connections.ts";
import type { HostNetwork } from "./host-network.ts";
import { applyRules, changeNetwork } from "./namespace.ts";
import { readHosts, watchOwnAddresses } from "./own-addresses.ts";
import { routerParts, USER_UPLINK } from "./router-links.ts";
import { hostRules, MAX_SENDERS, resolverRules, sandboxAddress } from "./router-rules.ts";
import { requireResolver, type EgressTarget, type Routers } from "./router.ts";
import { connectSender, removeSenders } from "./senders.ts";
import { openUserUplink } from "./user-uplink.ts";

/** The last id of the only range: as a 16-bit number it is none, so that no account has it. */
const PROGRAM_USER = NAMESPACE_ID_BASE + ID_RANGE - 1;

interface Router extends AsyncDisposable {
  /** File of its namespace. */
  readonly path: string;
  resolvers: readonly string[];
  /** The last change of the outside that it took over. */
  followed: number;
  readonly program: EgressProgram;
  /** By the folder of their container: the number of each one's link and address. */
  readonly senders: Map<string, number>;
  /** The number that was given last: one that is free again is given late. */
  lastSlot: number;
}

interface State {
  readonly turns: Turns;
  /** By the folder of their containers. */
  readonly routers: Map<string, Router>;
}

/** The routers of this process alone: no other process can change or remove them. */
export function createUserRouters(): Routers {
  const state: State = { turns: createTurns(), routers: new Map() };
  return {
    outlivesProcess: false,
    hasLost: async () => true,
    async setEgress(target, egress) {
      const rules = toCanonical(egress);
      const { directory, outside } = target;
      if (outside === undefined) return;
      if (rules === "none") {
        const slot = state.routers.get(dirname(directory))?.senders.get(directory);
        await disconnect(state, directory);
        if (slot !== undefined) await endConnections(target.record, sandboxAddress(slot));
      } else await connect(state, { ...target, outside }, rules);
    },
    disconnect: async (directory) => disconnect(state, directory),
  };
}

/** Gives a container these rules, and its link if it has none yet. The rules are there first. */
async function connect(
  { turns, routers }: State,
  target: EgressTarget & { readonly outside: HostNetwork },
  rules: EgressRules,
): Promise<void> {
  const { directory, record, outside } = target;
  const { pid, startTicks } = record;
  const owner = dirname(directory);
  await turns.run(owner, async () => {
    // Checked in turn: after a removal nothing may be made that is never removed.
    if (readStartTicks(pid) !== startTicks) {
      throw new SandboxError("unavailable", "container is gone");
    }
    if (rules.domains.length > 0) requireResolver(outside.resolvers);
    const router = routers.get(owner) ?? (await openRouter(owner, outside));
    routers.set(owner, router);
    await followOutside(router, outside);
    const slot = router.senders.get(directory) ?? claimSlot(router);
    router.senders.set(directory, slot);
    const address = sandboxAddress(slot);
    if (rules.domains.length > 0) await router.program.order(address, rules.domains);
    const place = { router: router.path, slot, network: `/proc/${pid}/ns/net` };
    const resolverCount = router.resolvers.length;
    await connectSender({ ...place, resolverCount, mtu: USER_UPLINK.mtu }, rules);
    if (rules.domains.length === 0) await router.program.order(address, undefined);
  });
}

/** The machine may have other name servers than when the router was made. */
async function followOutside(router: Router, { resolvers, changes }: HostNetwork): Promise<void> {
  if (router.followed === changes) return;
  await applyRules(router.path, resolverRules(resolvers));
  await router.program.renew(resolvers);
  router.resolvers = [...resolvers];
  router.followed = changes;
}

async function disconnect({ turns, routers }: State, directory: string): Promise<void> {
  const owner = dirname(directory);
  await turns.run(owner, async () => {
    const router = routers.get(owner);
    const slot = router?.senders.get(directory);
    if (router === undefined || slot === undefined) return;
    if (router.senders.size === 1) {
      routers.delete(owner);
      await router[Symbol.asyncDispose]();
      return;
    }
    await removeSenders(router.path, [slot]);
    await router.program.order(sandboxAddress(slot), undefined);
    router.senders.delete(directory);
  });
}

function claimSlot(router: Router): number {
  const taken = new Set(router.senders.values());
  if (taken.size >= MAX_SENDERS) {
    throw new SandboxError("resource_exhausted", "no address is free for the container");
  }
  do router.lastSlot = (router.lastSlot + 1) % MAX_SENDERS;
  while (taken.has(router.lastSlot));
  return router.lastSlot;
}

async function openRouter(owner: string, outside: HostNetwork): Promise<Router> {
  const { program, perlDirectory, resolvers } = outside;
  const hosts = await readHosts(undefined);
  const facts = { slot: 0, resolvers, hosts };
  await using parts = new AsyncDisposableStack();
  const namespace = parts.use(await openNamespace());
  const path = pathOf(namespace);
  await changeNetwork(path, routerParts(facts));
  parts.use(await openUserUplink({ network: path, owner, perlDirectory }));
  parts.use(watchOwnAddresses(hosts, async (own) => applyRules(path, hostRules(own))));
  const place = { network: path, user: PROGRAM_USER, perlDirectory };
  const names = createEgressProgram({ ...place, resolvers, hosts, program });
  parts.defer(async () => names.stop());
  const ending = parts.move();
  return {
    path,
    resolvers,
    followed: outside.changes,
    program: names,
    senders: new Map(),
    lastSlot: -1,
    [Symbol.asyncDispose]: async () => ending.disposeAsync(),
  };
}

/** Makes a router and takes it away again. */
export async function tryUserRouter(outside: HostNetwork): Promise<void> {
  const router = await openRouter("trial", outside);
  await router[Symbol.asyncDispose]();
}

/** The file of a namespace, as other programs of ours see it. */
function pathOf({ fd }: FileHandle): string {
  return `/proc/${process.pid}/fd/${fd}`;
}

/** A new network namespace, which lives as long as the descriptor. */
async function openNamespace(): Promise<FileHandle> {
  const held = Promise.withResolvers<string>();
  const opened = Promise.withResolvers<FileHandle>();
  // It waits for the end of its input, in the namespace.
  const script = "echo $$ >&2; read -r end";
  const running = runProgram(["unshare", "--net", "sh", "-c", script], {
    input: held.promise,
    onLine: (pid) => void open(`/proc/${pid}/ns/net`).then(opened.resolve, opened.reject),
  });
  running.catch(opened.reject);
  try {
    return await opened.promise;
  } finally {
    held.resolve("\n");
    await running;
  }
}
