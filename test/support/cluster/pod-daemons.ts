/** What a kubelet does for the tests: each Pod gets an address of loopback and a daemon behind its listener. */

import { once } from "node:events";
import type { Server } from "node:http";
import { resolve } from "node:path";
import type { TreePlace } from "../../../src/envd/changes/tree.ts";
import type { ChangesSource } from "../../../src/envd/control/changes.ts";
import { createControlServer, createSource } from "../../../src/envd/control/server.ts";
import { createDaemon, type Daemon } from "../../../src/envd/daemon.ts";
import { createPodListener, readPodIdentity } from "../../../src/envd/pod-listener.ts";
import { createPrograms, type Programs, type Signals } from "../../../src/envd/programs.ts";
import { createPublicServer } from "../../../src/envd/server.ts";
import { findFreePort } from "../loopback.ts";
import type { StoredObject, TestApiServer } from "./api-server.ts";

const DIRECTORY = resolve(import.meta.dirname, "../../../src/perl");

export interface PodDaemons extends AsyncDisposable {
  readonly port: number;
  /** The daemon of a Pod ends and comes back, knowing nothing. */
  restart(name: string): Promise<void>;
  /** Pods that come from now on stay pending. */
  isHolding: boolean;
  /** Whether the network of Pods enforces policies: those with rules of their own, and of trials, reach no front. */
  isEnforcing: boolean;
  /** Whether daemons refuse to let stopped programs go on, as root inside can make them. */
  isStubborn: boolean;
  /** What daemons that start from now on answer with 500. */
  refusedPath: string | undefined;
  /** Whether the programs of a Pod stand still; undefined without that Pod. */
  areStopped(name: string): boolean | undefined;
}

export interface PodDaemonsOptions {
  /** The files of a Pod, from its image; without it no snapshots are made. */
  files?(name: string, image: string): Promise<TreePlace>;
}

interface Running {
  readonly servers: readonly Server[];
  readonly daemon: Daemon;
  readonly host: string;
  readonly words: readonly string[];
  readonly changes: ChangesSource | undefined;
  readonly programs: Programs;
}

/** The listener of every Pod has the same port, each on an address of its own. */
export async function startPodDaemons(
  api: TestApiServer,
  options: PodDaemonsOptions = {},
): Promise<PodDaemons> {
  const port = await findFreePort();
  /** Programs of these Pods are those of the tests: they go on. */
  const signals: Signals = {
    send(signal) {
      if (daemons.isStubborn && signal === "SIGCONT") throw new Error("planned refusal");
    },
    isAnyoneActive: async () => false,
  };
  const running = new Map<string, Running>();
  /** Each daemon would keep some open for programs that none of them starts. */
  const { spawner } = createDaemon(DIRECTORY);
  let last = 1;

  async function start(name: string, known: Pick<Running, "host" | "words" | "changes">) {
    const { host, words, changes } = known;
    const identity = readPodIdentity(words);
    if (identity === undefined) throw new Error(`no identity in ${words.join(" ")}`);
    const daemon = { ...createDaemon(DIRECTORY), spawner };
    const publicServer = createPublicServer(daemon);
    const programs = createPrograms(() => publicServer.closeAllConnections(), signals);
    const controlServer = createControlServer({
      daemon,
      programs,
      open: async () => undefined,
      ...(changes !== undefined && { changes }),
      ...(daemons.isEnforcing && { reach: async () => !isRestricted(name) }),
    });
    if (daemons.refusedPath !== undefined) refuse(controlServer, daemons.refusedPath);
    const { settings } = daemon;
    const listener = createPodListener({
      identity,
      publicServer,
      controlServer,
      settings,
      programs,
    });
    listener.listen({ host, port });
    await once(listener, "listening");
    const servers = [listener, publicServer, controlServer];
    running.set(name, { ...known, servers, daemon, programs });
  }

  function isRestricted(name: string): boolean {
    const { labels = {} } = api.objects.get(`pods/${name}`)?.metadata ?? {};
    if (labels["sandbox-mcp.io/part"] === "probe") return true;
    return labels["sandbox-mcp.io/egress"] === "own" && labels["sandbox-mcp.io/sandbox"] === name;
  }

  /** Another Pod may have its name by now. */
  function isThere(name: string, { metadata: { uid } }: StoredObject): boolean {
    return api.objects.get(`pods/${name}`)?.metadata.uid === uid;
  }

  async function run(name: string, host: string, object: StoredObject): Promise<void> {
    const words = wordsOf(object);
    const { containers } = Object(object.spec);
    const image: string = containers[0].image;
    const place = await options.files?.(name, image);
    const changes = place && createSource(place);
    if (!isThere(name, object)) return;
    await start(name, { host, words, changes });
    if (!isThere(name, object)) {
      stop(name);
      return;
    }
    api.change(`pods/${name}`, (pod) => {
      pod["status"] = { phase: "Running", podIP: host };
    });
  }

  function stop(name: string): Running | undefined {
    const known = running.get(name);
    running.delete(name);
    for (const server of known?.servers ?? []) {
      server.close();
      server.closeAllConnections();
    }
    known?.daemon.processes[Symbol.dispose]();
    return known;
  }

  const daemons: PodDaemons = {
    port,
    isHolding: false,
    isEnforcing: false,
    isStubborn: false,
    refusedPath: undefined,
    areStopped: (name) => running.get(name)?.programs.areStopped,
    async restart(name) {
      const known = stop(name);
      if (known === undefined) return;
      const { host, words, changes } = known;
      await start(name, { host, words, changes: changes && createSource(changes.place) });
    },
    async [Symbol.asyncDispose]() {
      for (const name of running.keys()) stop(name);
    },
  };
  api.onChange((type, plural, object) => {
    if (plural !== "pods") return;
    const { name } = object.metadata;
    if (type === "DELETED") stop(name);
    if (type !== "ADDED" || daemons.isHolding) return;
    last += 1;
    const host = `127.0.${Math.floor(last / 250) + 1}.${(last % 250) + 1}`;
    // Its failure is a create that is never answered.
    void run(name, host, object);
  });
  return daemons;
}

/** The command of the daemon within the shell loop of its container. */
function wordsOf({ spec }: StoredObject): readonly string[] {
  const { containers } = Object(spec);
  const loop: string = containers[0].command.at(-2);
  return (/do (.*?);/.exec(loop)?.[1] ?? "").split(" ");
}

function refuse(server: Server, path: string): void {
  const answers = server.listeners("request");
  server.removeAllListeners("request");
  server.on("request", (request, response) => {
    if (request.url === path) response.writeHead(500).end();
    else for (const answer of answers) answer.call(server, request, response);
  });
}
