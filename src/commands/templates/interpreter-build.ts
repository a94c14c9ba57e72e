/** The template `code-interpreter` of a home: where its layers lie, and how they are built. */

import { SandboxError } from "../../common/errors.ts";
import { DAEMON_DIRECTORY } from "../../engine/daemon/daemon-command.ts";
import {
  buildInterpreter,
  INTERPRETER_ALIAS,
  INTERPRETER_RECIPE,
  INTERPRETER_TEMPLATE,
} from "../../engine/templates/interpreter.ts";
import type { BuiltInTemplate } from "../../sandboxes/templates/built-ins.ts";
import type { TemplateSetup } from "../../store/store.ts";
import { templateMissing } from "../../wire/messages.ts";
import { createBuildTarget, type BuildTarget } from "./build-target.ts";
import { readBuildTime } from "./build-times.ts";
import { LANGUAGE } from "./built-ins.ts";

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

/** What a service needs to build it by itself. */
export const INTERPRETER_BUILD: BuildTarget = createBuildTarget({
  name: INTERPRETER_TEMPLATE,
  kind: "interpreter",
  recipe: INTERPRETER_RECIPE,
  make: buildInterpreter,
  expectMs: expectInterpreterMs,
});

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
    find: () => INTERPRETER_BUILD.find(home),
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
  const size = "1.8 GB";
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
