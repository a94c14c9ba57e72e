/** The template `code-interpreter` of a home: where its layers lie, and how they are built. */

import { join } from "node:path";
import { SandboxError } from "../common/errors.ts";
import { DAEMON_DIRECTORY } from "../engine/daemon/daemon-command.ts";
import { createOnce, removeDrafts } from "../engine/host/drafts.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import { BASE_BUILD_TIMEOUT_MS } from "../engine/templates/base.ts";
import {
  buildInterpreter,
  INTERPRETER_ALIAS,
  INTERPRETER_RECIPE,
  INTERPRETER_TEMPLATE,
} from "../engine/templates/interpreter.ts";
import type { BuiltInTemplate } from "../sandboxes/built-ins.ts";
import type { TemplateSetup } from "../store/store.ts";
import { templateMissing } from "../wire/messages.ts";
import type { BuildTarget } from "./base-build.ts";
import {
  findBuildStart,
  findBuilt,
  findNewest,
  hasLostModes,
  newLayerMoment,
} from "./base-layers.ts";
import { readBuildTime, recordBuildTime } from "./build-times.ts";
import { LANGUAGE, type BaseBuildTask } from "./built-ins.ts";
import { withDiskSpace } from "./with-disk-space.ts";

const KIND = "interpreter";
/** Of the time of `base` on the same machine, whose packages it has too. */
const TIMES_OF_BASE = 2;

const PORT = 49_999;
const SERVER = `${DAEMON_DIRECTORY}/interpreter/server.py`;

/**
 * The server runs as root, so that a cell, which runs as the user, cannot end it; as the user where
 * sudo gives no rights, as with an older runsc. It is ready when the first cell does not wait.
 */
const INTERPRETER_SETUP: TemplateSetup = {
  environment: LANGUAGE,
  startCommand:
    "if sudo -n true; then set -- sudo -n -E; else set -- env; fi; " +
    `exec "$@" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 ${SERVER}`,
  readyCommand: `curl -sf -o /dev/null --max-time 40 http://127.0.0.1:${PORT}/health`,
  cpus: 2,
  memoryMb: 2_048,
};

const once = createOnce<string>();

/** What a service needs to build it by itself. */
export const INTERPRETER_BUILD: BuildTarget = {
  name: INTERPRETER_TEMPLATE,
  expectMs: expectInterpreterMs,
  build: buildNewInterpreter,
  find: (home) => findBuilt(home, KIND),
  isCurrent: async (home) => isCurrent(await findNewest(home, KIND)),
  hasLostModes: (home) => hasLostModes(home, KIND),
  findStart: (home) => findBuildStart(home, KIND),
};

/** The template as a service offers it; `prepare` builds it where the service may. */
export function interpreterTemplate(
  home: string,
  prepare: NonNullable<BuiltInTemplate["prepare"]>,
): BuiltInTemplate {
  return {
    name: INTERPRETER_TEMPLATE,
    aliases: [INTERPRETER_ALIAS],
    defaultUser: "user",
    defaultWorkdir: "/home/user",
    setup: INTERPRETER_SETUP,
    find: () => findBuilt(home, KIND),
    prepare: async (signal, waitMs) => (await prepare(signal, waitMs)) ?? refuse(home),
  };
}

/** One sentence with the command, and with the time that it took here. */
async function refuse(home: string): Promise<never> {
  // A hint does not travel over the wire.
  const message =
    `${templateMissing(INTERPRETER_TEMPLATE)}: \`sandbox-mcp template pull ` +
    `${INTERPRETER_TEMPLATE}\` builds it ${await describeTime(home)}, ` +
    "or start the service with --auto-templates on";
  throw new SandboxError("not_found", message);
}

async function describeTime(home: string): Promise<string> {
  const size = "1.5 GB";
  const lastMs = await readBuildTime(home, INTERPRETER_TEMPLATE);
  if (lastMs !== undefined) {
    return `(its last build on this machine took ${inSeconds(lastMs)}; ${size})`;
  }
  const expectedMs = await expectInterpreterMs(home);
  if (expectedMs === undefined) return `(${size})`;
  return `(about ${inSeconds(expectedMs)}, by the time that base took on this machine; ${size})`;
}

function inSeconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1_000))} s`;
}

/** By the last build in this home, else by that of `base`; undefined where there was neither. */
async function expectInterpreterMs(home: string): Promise<number | undefined> {
  const lastMs = await readBuildTime(home, INTERPRETER_TEMPLATE);
  if (lastMs !== undefined) return lastMs;
  const baseMs = await readBuildTime(home, "base");
  return baseMs === undefined ? undefined : baseMs * TIMES_OF_BASE;
}

function isCurrent(name: string | undefined): boolean {
  return name?.endsWith(`-${INTERPRETER_RECIPE}`) ?? false;
}

/** As `buildNewBase`: beside what is there, unless another process does so meanwhile. */
export async function buildNewInterpreter(build: BaseBuildTask): Promise<boolean> {
  const { home, ifMissing } = build;
  const before = await findNewest(home, KIND);
  const find = async (): Promise<string | undefined> => {
    const newest = await findNewest(home, KIND);
    return isCurrent(newest) && (ifMissing || newest !== before) ? newest : undefined;
  };
  const make = async (signal: AbortSignal): Promise<string> => {
    // With the lock held, the process that began one of these is dead.
    await removeDrafts(join(home, LAYERS), `${KIND}-`);
    const name = `${KIND}-${newLayerMoment(await findNewest(home, KIND))}-${INTERPRETER_RECIPE}`;
    build.onProgress("building code-interpreter from this system's package mirror");
    const directory = join(home, LAYERS, name);
    await withDiskSpace({ home, signal }, (stop) =>
      recordBuildTime(home, INTERPRETER_TEMPLATE, () =>
        buildInterpreter({ ...build, signal: stop, directory }),
      ),
    );
    return name;
  };
  const limits = { lock: KIND, timeoutMs: BASE_BUILD_TIMEOUT_MS } as const;
  return (await once(home, { home, ...limits, find, make }, build.signal)) !== before;
}
