/**
 * The sandbox service of this machine: started in this process, or, for a stdio server, a running
 * `serve` of the same home.
 */

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createService, type Service } from "../../client/service.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import type { Config } from "../../config.ts";
import type { Engine, EngineReport } from "../../engine/engine.ts";
import { canShareUsr } from "../../engine/host/id-maps.ts";
import { openStoreImage } from "../../engine/storage/store-image.ts";
import { prepareTrust } from "../../engine/templates/trust.ts";
import type { OnExit } from "../../mcp/state.ts";
import { controlSocketPath, isAlive } from "../../sandboxes/reclaim/instance-folder.ts";
import { openHome } from "../home/home.ts";
import { commandLine } from "../program/command-line.ts";
import { holdProgramFiles } from "../program/program-copies.ts";
import { createBaseBuild, type ShowProgress } from "../templates/base-build.ts";
import { builtInTemplates } from "../templates/built-ins.ts";
import { INTERPRETER_BUILD, interpreterTemplate } from "../templates/interpreter-build.ts";
import { requireBase } from "../templates/template-lack.ts";
import {
  startEmbeddedService,
  type EmbeddedService,
  type EmbeddedServiceOptions,
} from "./embedded-service.ts";
import { createEngine, missingPlatform, probeEngine, requireEgressFile } from "./engine.ts";
import { awaitAddress, SERVE_INSTANCE } from "./serve-address.ts";
import { memoryNote, storeNote } from "./setting-notes.ts";

/** The service that a stdio server speaks to. */
export interface OpenService {
  readonly service: Service;
  /** What happens to the sandboxes of the MCP server at its end. */
  readonly onExit: OnExit;
}

/** Why there is no service after all, and what a tool says then. */
export interface NoService {
  readonly reason: string;
  readonly hint: string;
}

const HOST_UNUSED =
  "--allow-host-template: not used without root, or in a container whose /usr is on an overlay";

/** One agent starts its sandboxes one after the other. */
const DEFAULT_POOL = 1;

export interface OpenTerms {
  readonly log: Logger;
  /** Ends the wait for another process. */
  readonly signal: AbortSignal;
}

/**
 * A service on this machine for a stdio server, owned by the stack.
 * @throws SandboxError failed_precondition for a configuration that cannot hold, unavailable for a
 * runtime that was asked for and does not work, canceled.
 */
export async function openLocalService(
  config: Config,
  terms: OpenTerms,
  stack: AsyncDisposableStack,
): Promise<OpenService | NoService> {
  const running = await findRunningService(config);
  if (running !== undefined) {
    const unused = config.sandboxSettings.join(", ");
    if (unused !== "") say(`${unused}: not used, sandboxes are those of the serve that runs`);
    return { service: stack.use(running), onExit: config.onExit ?? "leave" };
  }
  const platform = missingPlatform(config);
  if (platform !== undefined) {
    return {
      reason: `sandboxes run on Linux only, this is ${process.platform}`,
      hint: `Tell the user the two ways on: ${ELSEWHERE}`,
    };
  }
  try {
    return await openLocal(config, terms, stack);
  } catch (error) {
    // What the user asked for by name must work; else a host gets tools that say what is missing.
    if (!isAbsence(error) || config.runtime !== "auto") throw error;
    const hint = `Tell the user the ways on: here, ${error.hint}; or elsewhere: ${ELSEWHERE}`;
    return { reason: error.message, hint };
  }
}

const ELSEWHERE =
  "set E2B_API_KEY to the key of an E2B-compatible service, or run " +
  "`npx -y sandbox-mcp serve` on a Linux machine or VM and set E2B_API_URL, " +
  "E2B_SANDBOX_URL and E2B_API_KEY to what it prints.";

function isAbsence(error: unknown): error is SandboxError {
  return hasErrorCode(error, "unavailable");
}

async function openLocal(
  config: Config,
  { log, signal }: OpenTerms,
  stack: AsyncDisposableStack,
): Promise<OpenService> {
  const local = stack.use(
    await startLocal(config, log, {
      instance: undefined,
      tcp: [],
      apiKeys: [],
      onExit: config.onExit ?? "kill",
      poolSize: config.pool ?? DEFAULT_POOL,
      allowHostTemplate: config.allowHostTemplate ?? true,
      signal,
    }),
  );
  const { url, socketPath, apiKey, findRun, openPublic } = local;
  const service = stack.use(createService({ url, socketPath, apiKey, findRun, openPublic }));
  return { service, onExit: config.onExit === "leave" ? "leave" : "service_ends" };
}

/**
 * A running `serve` of the same home and user, once it answers; undefined where there is none, or
 * where it ended while it was starting.
 */
async function findRunningService(config: Config): Promise<Service | undefined> {
  const { home } = config;
  if (!(await isAlive(home, SERVE_INSTANCE))) return undefined;
  const address = await awaitAddress(home, SERVE_INSTANCE);
  if (address === undefined && !(await isAlive(home, SERVE_INSTANCE))) return undefined;
  const socketPath = controlSocketPath(home, SERVE_INSTANCE);
  const apiKey = await readFile(join(dirname(socketPath), "token"), "utf8");
  return createService({ url: "http://localhost", socketPath, apiKey, ...address });
}

/** How the two commands that embed the service differ. */
export type LocalOptions = Pick<
  EmbeddedServiceOptions,
  | "instance"
  | "tcp"
  | "apiKeys"
  | "onExit"
  | "allowHostTemplate"
  | "poolSize"
  | "pauseToDisk"
  | "startMcp"
  | "graceMs"
  | "hasMetrics"
  | "signal"
> & {
  /** Shows people how a build of the template base goes. */
  readonly showBuild?: ShowProgress;
};

/**
 * Starts the service once this machine has proven that it can isolate.
 * @throws SandboxError unavailable when it cannot or has no template, failed_precondition when it
 * is weaker than required; the hint is the command that fixes it.
 */
export async function startLocal(
  config: Config,
  log: Logger,
  options: LocalOptions,
): Promise<EmbeddedService> {
  await openHome(config.home, options.signal);
  requireEgressFile(config);
  await using stack = new AsyncDisposableStack();
  const { home, buildsBase, storeGb } = config;
  const files = stack.use(await holdProgramFiles(home, log));
  const { perlDirectory } = files;
  const image = stack.use(await openStoreImage({ home, perlDirectory, sizeGb: storeGb }));
  const fault = image?.size?.fault;
  if (fault !== undefined) log.warn({ op: "store.grow", err: fault }, "store did not grow");
  const engine = await createEngine(config, { files, log });
  const report = await requireUsable(engine, config);
  const notes = [
    storeNote(image?.size, storeGb),
    memoryNote({ ...config, pauseToDisk: options.pauseToDisk }, report),
    config.allowHostTemplate === true && !canShareUsr() ? HOST_UNUSED : undefined,
  ];
  for (const note of notes) if (note !== undefined) say(note);
  const allowHostTemplate = options.allowHostTemplate && canShareUsr();
  if (!allowHostTemplate) await requireBase(config);
  const { showBuild: show } = options;
  const build = createBaseBuild({ home, log, say, isAllowed: buildsBase, ...(show && { show }) });
  stack.use(build);
  const mayBuild = buildsBase && config.autoTemplates;
  const target = INTERPRETER_BUILD;
  const interpreter = createBaseBuild({ target, home, log, say, isAllowed: mayBuild });
  stack.use(interpreter);
  const service = stack.use(
    await startEmbeddedService({
      ...options,
      ...(await prepareOutside(config)),
      allowHostTemplate,
      home,
      engine,
      limits: config.limits,
      volumes: { sizeMb: config.volumeMb, perlDirectory },
      maxSandboxes: config.maxSandboxes,
      poolShares: config.poolTemplates,
      buildNetwork: toBuildNetwork(config),
      images: {
        perlDirectory,
        mirrors: config.registryMirrors,
        authFiles: config.registryLogins,
      },
      maxSandboxesPerTeam: config.maxSandboxesPerTeam,
      builtIns: [
        ...builtInTemplates(home, perlDirectory, (signal, waitMs) => build.wait(signal, waitMs)),
        interpreterTemplate(home, (signal, waitMs) => interpreter.wait(signal, waitMs)),
      ],
      domain: config.domain,
      log,
    }),
  );
  await build.begin();
  const owned = stack.move();
  return { ...service, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function say(line: string): void {
  process.stderr.write(`sandbox-mcp: ${line}\n`);
}

async function requireUsable(engine: Engine, config: Config): Promise<EngineReport> {
  const report = await probeEngine(engine, config);
  if (report.isUsable) return report;
  const missing = report.checks.find((check) => check.outcome === "missing");
  const code = missing?.name === "isolation" ? "failed_precondition" : "unavailable";
  const detail = missing === undefined ? "nothing works" : `${missing.name}: ${missing.detail}`;
  throw new SandboxError(code, `this machine cannot isolate: ${detail}`, {
    hint: missing?.remedy ?? commandLine(config, "doctor"),
  });
}

/** What steps of builds may reach: everything that sandboxes may, nothing, or some hostnames alone. */
function toBuildNetwork({ buildEgress }: Config): EmbeddedServiceOptions["buildNetwork"] {
  if (buildEgress === undefined) return undefined;
  if (buildEgress.length === 0) return { allowsInternet: false, network: undefined };
  const network = { allowOut: [...buildEgress], denyOut: [ALL_TRAFFIC] };
  return { allowsInternet: undefined, network };
}

const ALL_TRAFFIC = "0.0.0.0/0";

/**
 * What every sandbox gets of the certificates and the proxy of this machine.
 * @throws SandboxError as `prepareTrust`.
 */
async function prepareOutside({
  home,
  ca,
  caFiles: files,
  proxy,
}: Pick<Config, "home" | "ca" | "caFiles" | "proxy">) {
  const hasProxy = Object.keys(proxy).length > 0;
  const trust = await prepareTrust({ home, files, file: ca, hasProxy });
  return { trust, environment: { ...trust?.environment, ...proxy } };
}
