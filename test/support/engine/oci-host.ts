/** A home with an engine on one runtime; its end removes every container that a test left. */

import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { warmUpRequests } from "../../../src/commands/service/warm-up-requests.ts";
import type { DaemonSources } from "../../../src/engine/daemon/daemon.ts";
import type {
  Bind,
  Container,
  ContainerLimits,
  ContainerSpec,
  DiskCopy,
  IsolationLevel,
  Layer,
} from "../../../src/engine/engine.ts";
import { readRecord } from "../../../src/engine/oci/container-record.ts";
import { createOciEngine } from "../../../src/engine/oci/oci.ts";
import type { EngineHost } from "../../suites/engine.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import { makeTempFolder, type TempFolder } from "../temp-folder.ts";
import { shareDaemon } from "./shared-daemon.ts";

const DAEMON: DaemonSources = {
  bundle: resolve(import.meta.dirname, "../../../dist/envd.cjs"),
  starter: resolve(import.meta.dirname, "../../../dist/envd-starter.cjs"),
  node: process.execPath,
  perlDirectory: PERL_DIRECTORY,
  warmUp: warmUpRequests,
};
const LIMITS: ContainerLimits = { memoryMb: 256, cpus: 1, diskMb: 256, pids: 100 };
const CONTAINER_PREFIX = "c-";

export interface OciHost extends EngineHost {
  readonly home: string;
  /** Every id of this host begins so. */
  readonly idPrefix: string;
  /** What the engine takes for the free share of the machine's memory, from 0 to 1. */
  readonly machine: { freeShare: number };
  /** A new container; it may be disposed by the test, else the host does it. */
  create(options?: CreateOptions): Promise<Container>;
}

export interface CreateOptions {
  readonly layers?: readonly Layer[];
  readonly limits?: Partial<ContainerLimits>;
  readonly binds?: readonly Bind[];
  readonly disk?: DiskCopy;
  readonly memory?: string;
  readonly isolation?: "gvisor" | undefined;
  readonly signal?: AbortSignal;
}

/** Makes a home and an engine for `crun`, `runc` or `auto`. */
export async function startOciHost(
  runtime: string,
  requireLevel: IsolationLevel = "userns-container",
  openFolder: () => Promise<TempFolder> = makeTempFolder,
): Promise<OciHost> {
  const folder = await openFolder();
  const idPrefix = `t${randomBytes(4).toString("hex")}`;
  await shareDaemon(folder.path, "engine", async () => DAEMON);
  const machine = { freeShare: 1 };
  const engine = createOciEngine({
    home: folder.path,
    runtime,
    requireLevel,
    namespaceFault: undefined,
    guardian: join(PERL_DIRECTORY, "../shell/guardian.sh"),
    daemon: DAEMON,
    freeShare: () => machine.freeShare,
  });
  const directoryOf = (id: string) => join(folder.path, `${CONTAINER_PREFIX}${id}`);
  const specs = new Map<string, ContainerSpec>();
  return {
    home: folder.path,
    user: "root",
    specOf(id) {
      const spec = specs.get(id);
      if (spec === undefined) throw new Error(`no container ${id}`);
      return spec;
    },
    async endInit({ id }) {
      const record = await readRecord(directoryOf(id));
      if (record !== undefined) process.kill(record.pid, "SIGKILL");
    },
    engine,
    idPrefix,
    machine,
    directoryOf,
    create: async (options = {}) => {
      const id = `${idPrefix}${randomBytes(4).toString("hex")}`;
      const {
        layers = [],
        binds = [],
        disk,
        memory,
        isolation,
        signal = new AbortController().signal,
      } = options;
      const limits = { ...LIMITS, ...options.limits };
      const spec = {
        id,
        directory: directoryOf(id),
        layers,
        ...(disk !== undefined && { disk }),
        ...(memory !== undefined && { memory }),
        isolation,
        binds,
        limits,
        hostname: "sandbox",
        egress: "none" as const,
      };
      specs.set(id, spec);
      return engine.create(spec, signal);
    },
    [Symbol.asyncDispose]: async () => {
      for (const name of await readdir(folder.path)) {
        if (!name.startsWith(CONTAINER_PREFIX)) continue;
        await engine.remove(name.slice(CONTAINER_PREFIX.length), join(folder.path, name));
      }
      await folder[Symbol.asyncDispose]();
    },
  };
}
