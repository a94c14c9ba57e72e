/** Tool: builds a template from a base and steps, and follows a build. */

import type { BuildRef } from "../../client/template-builds.ts";
import { SandboxError, type ErrorCode } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { cutText, quoteName, quoteWords } from "../../common/untrusted-text.ts";
import { toParts } from "../../output/quote.ts";
import type { BuildStatusBody } from "../../wire/template-builds.ts";
import { refuseBuiltInName } from "../built-in-names.ts";
import { waitInput } from "../inputs.ts";
import { onOptionalRoute, withHints } from "../replies/error-hints.ts";
import { Progress } from "../replies/progress.ts";
import { textReply } from "../replies/respond.ts";
import { defineTool, DESTRUCTIVE, type ToolContext } from "../tool.ts";

const MAX_STEPS = 100;
const MAX_VALUE_CHARACTERS = 32_768;
const MAX_NAME_CHARACTERS = 128;
const MAX_LOG_BYTES = 30_000;
/** A character has at most three bytes. */
const MAX_LINE_CHARACTERS = MAX_LOG_BYTES / 3 - 1;
const POLL_MS = 250;
const BUILD_PATTERN = /^[a-z0-9]{1,64}\/[0-9a-f-]{36}$/;

const step = z.strictObject({
  type: z.enum(["run", "env", "workdir", "user"]).describe("Kind of step."),
  value: z
    .string()
    .min(1)
    .max(MAX_VALUE_CHARACTERS)
    .describe(
      "run: command; env: NAME=value; workdir: path; user: root to install packages; sandboxes get the last.",
    ),
});

const input = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(MAX_NAME_CHARACTERS)
    .optional()
    .describe("name or name:tag; required for a new build."),
  base: z
    .string()
    .min(1)
    .max(MAX_NAME_CHARACTERS)
    .default("base")
    .describe("Template or snapshot to start from."),
  steps: z
    .array(step)
    .max(MAX_STEPS)
    .optional()
    .describe("Run in order; unchanged ones are cached."),
  start_command: z
    .string()
    .max(MAX_VALUE_CHARACTERS)
    .optional()
    .describe("Runs at each start, such as a server."),
  ready_command: z
    .string()
    .max(MAX_VALUE_CHARACTERS)
    .optional()
    .describe("Must succeed before create_sandbox returns."),
  cpus: z.int().min(1).max(1_024).optional().describe("Of its sandboxes."),
  memory_mb: z.int().min(128).max(1_048_576).optional().describe("Of its sandboxes."),
  build_id: z.string().regex(BUILD_PATTERN).optional().describe("Follows this build."),
  cursor: z.int().min(0).max(1_000_000_000).default(0).describe("next_cursor of the last reply."),
  wait_seconds: waitInput(45, "How long this call waits for the end."),
});

type Params = z.output<typeof input>;

export const buildTemplate = defineTool({
  name: "build_template",
  title: "Build a template",
  description:
    "Builds a template from a base and steps, so that create_sandbox starts with everything " +
    "installed. Replaces the template of the same name when it succeeds. Returns the log; a build " +
    "goes on after wait_seconds, and build_id and cursor read on. To keep files of a running " +
    "sandbox, use snapshot.",
  toolset: "all",
  input,
  annotations: { ...DESTRUCTIVE, openWorldHint: true },
  async handler(params, context) {
    const { clock, signal, progress: send } = context;
    const isNew = params.build_id === undefined;
    const build = isNew ? await request(params, context) : parse(params);
    const buildId = quoteName(`${build.templateId}/${build.buildId}`);
    const fault = isNew ? await begin(build, params, context) : undefined;
    // It may have reached the service: without its id no client could follow the build.
    if (fault !== undefined)
      return { ...textReply([`build_id: ${buildId}`, UNKNOWN]), error: fault };
    await using progress = new Progress({ send, clock, signal });
    progress.began(`following build ${buildId}`);
    let followed: Followed;
    try {
      followed = await follow(build, { params, progress }, context);
    } catch (error) {
      if (!isNew || !(error instanceof SandboxError)) throw error;
      // Without its id no client could follow the build.
      return {
        ...textReply([`build_id: ${buildId}`, "the build goes on; follow it by this"]),
        error,
      };
    }
    const { status, text, cursor, hasMore } = followed;
    const isOver = status.status === "ready" || status.status === "error";
    const facts = [
      `status: ${status.status}`,
      `template_id: ${quoteName(build.templateId)}`,
      `build_id: ${buildId}`,
      isOver && !hasMore ? undefined : `next_cursor: ${cursor}`,
      isOver && hasMore ? "the log goes on at this cursor of this build_id" : undefined,
      isOver ? undefined : "the build continues; a new build of the same name cancels it",
    ];
    const reply = textReply(facts, [{ name: "log", parts: toParts(Buffer.from(text)) }]);
    return status.status === "error" ? { ...reply, error: toFailure(status) } : reply;
  },
});

function toFailure({ reason }: BuildStatusBody): SandboxError {
  const place = reason && ` at step ${quoteName(reason.step)}: ${quoteWords(reason.message)}`;
  return new SandboxError("failed_precondition", `the build failed${place ?? ""}`, {
    hint: "Correct what the step says, then build again; the steps before it are cached.",
  });
}

function parse({ build_id: id = "" }: Params): BuildRef {
  const [templateId = "", buildId = ""] = id.split("/");
  return { templateId, buildId };
}

async function request(params: Params, context: ToolContext): Promise<BuildRef> {
  const { name } = params;
  if (name === undefined) {
    throw new SandboxError("invalid_argument", "name is required for a new build");
  }
  refuseBuiltInName(name);
  requireAssignments(params);
  const { control } = context.service;
  const { signal } = context;
  const wanted = {
    name,
    ...(params.cpus !== undefined && { cpuCount: params.cpus }),
    ...(params.memory_mb !== undefined && { memoryMB: params.memory_mb }),
  };
  const missing = "The sandbox service cannot build templates.";
  const requested = control.requestBuild(wanted, signal);
  const made = await onOptionalRoute(requested, missing, () => control.list({ limit: 1 }, signal));
  return { templateId: made.templateID, buildId: made.buildID };
}

/** Before anything is recorded. A value that is missing is never taken for an empty one, as in a Dockerfile. */
function requireAssignments({ steps = [] }: Params): void {
  const index = steps.findIndex(({ type, value }) => type === "env" && !value.includes("="));
  if (index === -1) return;
  const given = quoteName(cutText(steps[index]?.value ?? "", MAX_NAME_CHARACTERS));
  throw new SandboxError(
    "invalid_argument",
    `step ${index + 1}: env takes NAME=value, not ${given}`,
  );
}

/** Returns a fault after which the build may go on. @throws SandboxError for a refusal. */
async function begin(
  build: BuildRef,
  params: Params,
  { service, signal }: ToolContext,
): Promise<SandboxError | undefined> {
  const { base, steps = [], start_command: startCmd, ready_command: readyCmd } = params;
  const plan = {
    fromTemplate: base,
    steps: steps.map(toStep),
    ...(startCmd !== undefined && { startCmd }),
    ...(readyCmd !== undefined && { readyCmd }),
  };
  try {
    await service.control.startBuild(build, plan, signal);
    return undefined;
  } catch (error) {
    if (!(error instanceof SandboxError) || !UNCERTAIN_CODES.has(error.code)) throw error;
    return error;
  }
}

const UNCERTAIN_CODES: ReadonlySet<ErrorCode> = new Set(["unavailable", "deadline_exceeded"]);
const UNKNOWN = "whether the build began is not known; follow it by this";

function toStep({ type, value }: z.output<typeof step>) {
  switch (type) {
    case "run":
      return { type: "RUN" as const, args: [value] };
    case "env": {
      const [name = "", ...rest] = value.split("=");
      return { type: "ENV" as const, args: [name, rest.join("=")] };
    }
    case "workdir":
      return { type: "WORKDIR" as const, args: [value] };
    case "user":
      return { type: "USER" as const, args: [value] };
    default:
      return type satisfies never;
  }
}

interface Followed {
  readonly status: BuildStatusBody;
  readonly text: string;
  readonly cursor: number;
  /** Whether the log may go on behind the cursor. */
  readonly hasMore: boolean;
}

/** Reads until the end, the limit of the wait, or so much that a reply is full. */
async function follow(
  build: BuildRef,
  { params, progress }: { readonly params: Params; readonly progress: Progress },
  context: ToolContext,
): Promise<Followed> {
  const { clock, signal, service, suggest } = context;
  const deadline = context.waitLimit(params.wait_seconds * 1_000);
  let cursor = params.build_id === undefined ? 0 : params.cursor;
  let text = "";
  for (;;) {
    const status = await withHints(service.control.buildStatus(build, cursor, signal), {
      not_found: `No such build${suggest("get_template", "; get_template lists those of a template")}.`,
    });
    const lines = fittingLines(status, MAX_LOG_BYTES - Buffer.byteLength(text));
    for (const line of lines) progress.output("stdout", Buffer.from(line));
    text += lines.join("");
    cursor += lines.length;
    const isDone = status.status === "ready" || status.status === "error";
    const isAtEnd = status.logEntries.length === 0;
    const isFull = lines.length < status.logEntries.length;
    if (isFull || (isDone ? isAtEnd : deadline.aborted)) {
      return { status, text, cursor, hasMore: !isAtEnd };
    }
    if (isAtEnd) await clock.sleep(POLL_MS, deadline).catch(() => undefined);
  }
}

/** The lines of a log from its first one on that fit into a reply; each line fits into a whole one. */
function fittingLines({ logEntries }: BuildStatusBody, maxBytes: number): readonly string[] {
  const lines = logEntries.map(({ message }) => `${cutText(message, MAX_LINE_CHARACTERS)}\n`);
  let bytes = 0;
  const end = lines.findIndex((line) => {
    bytes += Buffer.byteLength(line);
    return bytes > maxBytes;
  });
  return end === -1 ? lines : lines.slice(0, end);
}
