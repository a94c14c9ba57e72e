/** Tool: starts a sandbox from a template or a snapshot. */

import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { logUri } from "../../output/logs.ts";
import { ENVIRONMENT_BOUNDS, METADATA_BOUNDS } from "../../wire/bounds.ts";
import type { CreatedSandboxBody, SandboxDetailBody } from "../../wire/control.ts";
import { findBuilding } from "../../wire/messages.ts";
import { makeSandboxes } from "../abandoned.ts";
import { lifetimeInput, pairsInput, toRecord } from "../inputs.ts";
import { freeHint, hinted, withHints } from "../replies/error-hints.ts";
import {
  endOf,
  expiryField,
  lifeField,
  networkWord,
  processesField,
  sizeFields,
} from "../replies/facts.ts";
import { recordReply } from "../replies/respond.ts";
import { ADDITIVE, defineTool, type Suggest, type ToolContext } from "../tool.ts";

const DEFAULT_TEMPLATE = "base";
const MAX_NETWORK_ENTRIES = 100;

function networkInput(description: string) {
  const entry = z.string().min(1).max(256);
  return z.array(entry).max(MAX_NETWORK_ENTRIES).optional().describe(description);
}

const input = z.strictObject({
  template: z
    .string()
    .min(1)
    .max(256)
    .default(DEFAULT_TEMPLATE)
    .describe("Template, or snapshot_id from snapshot."),
  timeout_seconds: lifetimeInput(),
  on_timeout: z
    .enum(["kill", "pause"])
    .default("kill")
    .describe("What happens at the end: kill loses everything, pause keeps it for connecting."),
  env: pairsInput("Environment variables of every process, 96 KiB in all.", ENVIRONMENT_BOUNDS),
  metadata: pairsInput("Labels, to find the sandbox again, 64 KiB in all.", METADATA_BOUNDS),
  allow_internet: z
    .boolean()
    .default(true)
    .describe(
      "Whether programs may reach the internet. A note states where not; only sandbox-mcp " +
        "doctor sees a firewall.",
    ),
  allow_out: networkInput(
    "What may be reached, as CIDRs, addresses or, for HTTP and TLS, names such as *.example.com; " +
      "deny the rest with 0.0.0.0/0 in deny_out.",
  ),
  deny_out: networkInput("CIDRs that may not be reached, such as 0.0.0.0/0."),
  isolation: z
    // An enumeration: clients of Gemini know no constants.
    .enum(["gvisor"])
    .optional()
    .describe("A kernel of its own, for code that you distrust; slower. Default: the machine's."),
  keep_memory: z
    .boolean()
    .default(true)
    .describe("Whether processes of a snapshot go on, where it has them."),
  public_traffic: z.boolean().default(true).describe("Whether its ports are open without token."),
});

const output = z.object({
  sandbox_id: z.string(),
  template: z.string(),
  state: z.enum(["running"]),
  expires_at: z.string().optional(),
  time_to_live_seconds: z.number().optional(),
  cpus: z.number().optional(),
  memory_mb: z.number().optional(),
  disk_mb: z.number().optional(),
  network: z.enum(["internet", "filtered", "none"]).optional(),
  isolation: z.string().optional(),
  processes: z.string().optional(),
  port_host: z.string().optional(),
  log: z.string(),
  note: z.string().optional(),
});

export const createSandbox = defineTool({
  name: "create_sandbox",
  title: "Create a sandbox",
  description:
    "Starts an isolated Linux computer from a template or snapshot and returns its sandbox_id, " +
    "which every other tool needs. Use one sandbox for a whole task: files and processes stay " +
    "in it between calls. It ends by itself after timeout_seconds (default 300), with all its " +
    "files, unless on_timeout is pause; every result states its expiry. End it with " +
    "kill_sandbox when you are done, and keep a state for later with snapshot.",
  toolset: "core",
  input,
  output,
  annotations: ADDITIVE,
  async handler(params, context) {
    const { suggest } = context;
    const body = await withHints(orUnbuilt(createWhenBuilt(params, context), suggest), {
      not_found: missingHint(suggest),
      resource_exhausted: freeHint(suggest),
      // A template that is being built has a hint of its own.
      ...(params.isolation !== undefined && { unavailable: WITHOUT_ISOLATION }),
      ...(params.allow_out !== undefined && { invalid_argument: ALL_TRAFFIC }),
    });
    const { sandboxID: sandboxId } = body;
    const detail = await describe(sandboxId, context);
    const told = body.allowInternetAccess ?? detail?.allowInternetAccess;
    const isAllowed = told ?? params.allow_internet;
    const isUnknown = typeof told !== "boolean" && !params.allow_internet;
    // The machine has no internet access for sandboxes, whatever is allowed by name.
    const isOffline = params.allow_internet && !isAllowed;
    const template = body.alias ?? body.templateID;
    const host = context.service.portHost(sandboxId, "{port}");
    // Without a name it may be the same one by its identifier.
    const isOther =
      params.template === DEFAULT_TEMPLATE && (body.alias ?? DEFAULT_TEMPLATE) !== DEFAULT_TEMPLATE;
    const notes = [
      ...(isOther
        ? [`template ${DEFAULT_TEMPLATE} is not built yet; ${template} was used meanwhile`]
        : []),
      ...(isOffline ? [OFFLINE] : []),
      ...(isUnknown ? [UNCONFIRMED_NETWORK] : []),
      ...unconfirmedNotes(params, { body, detail }),
      ...(params.on_timeout === "pause" ? [timeoutNote(sandboxId, detail, context)] : []),
    ].filter((note) => note !== "");
    return recordReply({
      sandbox_id: sandboxId,
      template,
      state: "running" as const,
      ...expiryField(context, sandboxId),
      ...lifeField(context, sandboxId),
      ...(detail !== undefined && sizeFields(detail)),
      ...(!isUnknown && {
        network: isOffline ? "none" : networkWord(isAllowed, detail?.network),
      }),
      ...(body.isolation !== undefined && { isolation: body.isolation }),
      ...processesField(body),
      ...(host !== undefined && { port_host: host }),
      log: logUri(sandboxId),
      ...(notes.length > 0 && { note: notes.join("; ") }),
    });
  },
});

/** How services say that a template is there without a build, under way or failed. */
const UNBUILT = /\btag '[^']*' does not exist for template\b/;

async function orUnbuilt<T>(work: Promise<T>, suggest: Suggest): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof SandboxError) || !UNBUILT.test(error.message)) throw error;
    const builds = suggest("get_template", " get_template tells its builds.");
    throw hinted(error, `The template has no finished build of this tag.${builds}`);
  }
}

function missingHint(suggest: Suggest): string {
  const templates = suggest("list_templates", " list_templates has the templates.");
  const snapshots = suggest("list_snapshots", " list_snapshots has the snapshots.");
  return `No such template or snapshot; the default is ${DEFAULT_TEMPLATE}.${templates}${snapshots}`;
}

function timeoutNote(
  sandboxId: string,
  detail: SandboxDetailBody | undefined,
  context: ToolContext,
): string {
  if (detail?.lifecycle?.onTimeout === "kill") return ENDS_AT_TIMEOUT;
  const end = endOf(sandboxId, context);
  return end === "" ? "" : `at its timeout it is paused${end}`;
}

const WITHOUT_ISOLATION =
  "If the service lacks this isolation, a repeat does not help: tell the user, or leave isolation " +
  "out for code that may share the kernel of the machine.";

/** Services name it by a constant of the clients, which no rule may contain. */
const ALL_TRAFFIC =
  "Correct the arguments. All traffic is 0.0.0.0/0: names in allow_out need it in deny_out.";

/** A service may leave out of a request what it does not know. */
const UNCONFIRMED_NETWORK =
  "the service does not say that programs cannot reach the internet: try it before you rely on it";
const ENDS_AT_TIMEOUT = "the service ends it at its timeout, and does not pause it";

const OFFLINE = "no internet in it: this machine has no way out for sandboxes, its doctor says why";

/** What the service says of it; undefined when it does not: the sandbox exists all the same. */
async function describe(
  sandboxId: string,
  { service, signal }: ToolContext,
): Promise<SandboxDetailBody | undefined> {
  try {
    return await service.control.get(sandboxId, signal);
  } catch {
    // A fault shows at its first use.
    return undefined;
  }
}

/** Between two notes of progress. */
const BUILD_WAIT_SECONDS = 3;
/** Hosts give up after a minute. */
const MAX_BUILD_WAIT_MS = 48_000;
const GO_ON = "Call create_sandbox again: it goes on waiting, nothing is lost.";

/** Waits with progress for a template that is being built; each request to the service is short. */
async function createWhenBuilt(
  params: z.output<typeof input>,
  context: ToolContext,
): Promise<CreatedSandboxBody> {
  const { control } = context.service;
  const making = {
    make: (signal: AbortSignal) => control.create(toRequest(params), signal, BUILD_WAIT_SECONDS),
    idsOf: ({ sandboxID }: CreatedSandboxBody) => [sandboxID],
  };
  const endAtMs = context.clock.elapsed() + MAX_BUILD_WAIT_MS;
  for (let count = 1; ; count += 1) {
    try {
      return await makeSandboxes(making, context);
    } catch (error) {
      const building = buildingOf(error);
      if (building === undefined) throw error;
      if (context.clock.elapsed() >= endAtMs) {
        throw new SandboxError("unavailable", building, { cause: error, hint: GO_ON });
      }
      // Progress may get lost; a caller that is gone ends the call by its own signal.
      await context.progress?.(count, building).catch(() => undefined);
    }
  }
}

function buildingOf(error: unknown): string | undefined {
  if (!hasErrorCode(error, "unavailable")) return undefined;
  return findBuilding(error.message);
}

function toRequest(params: z.output<typeof input>) {
  const network = {
    ...(params.allow_out !== undefined && { allowOut: params.allow_out }),
    ...(params.deny_out !== undefined && { denyOut: params.deny_out }),
    ...(!params.public_traffic && { allowPublicTraffic: false }),
  };
  return {
    templateID: params.template,
    timeout: params.timeout_seconds,
    autoPause: params.on_timeout === "pause",
    secure: true,
    allow_internet_access: params.allow_internet,
    ...(Object.keys(network).length > 0 && { network }),
    metadata: toRecord(params.metadata),
    envVars: toRecord(params.env),
    ...(params.isolation !== undefined && { isolation: params.isolation }),
    ...(!params.keep_memory && { memory: false }),
  };
}

interface Wanted {
  readonly isolation?: string | undefined;
  readonly public_traffic: boolean;
  readonly allow_out?: readonly string[] | undefined;
  readonly deny_out?: readonly string[] | undefined;
}

interface Answered {
  readonly body: CreatedSandboxBody;
  /** Undefined where the service does not tell it. */
  readonly detail: SandboxDetailBody | undefined;
}

/** One note for each. */
function unconfirmedNotes(wanted: Wanted, { body, detail }: Answered): readonly string[] {
  const { allowOut, denyOut, allowPublicTraffic } = detail?.network ?? {};
  const isPrivate = Boolean(body.trafficAccessToken) || allowPublicTraffic === false;
  const hasRules = isHeld(wanted.allow_out, allowOut) && isHeld(wanted.deny_out, denyOut);
  return [
    ...(wanted.isolation !== undefined && body.isolation !== wanted.isolation ? [ISOLATION] : []),
    ...(hasRules ? [] : [RULES]),
    ...(wanted.public_traffic || isPrivate ? [] : [PRIVACY]),
  ];
}

function isHeld(wanted: readonly string[] = [], told: readonly string[] | undefined): boolean {
  return wanted.length === 0 || told !== undefined;
}

const ISOLATION = "the service does not confirm the isolation: run no code in it that you distrust";
const RULES =
  "the service does not confirm allow_out and deny_out: try them before you rely on them";
const PRIVACY =
  "the service does not confirm that its ports need a token: take them for open to anyone";
