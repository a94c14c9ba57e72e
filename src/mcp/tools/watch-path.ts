/** Tool: waits for changes in a directory. */

import type { Sandbox } from "../../client/envd.ts";
import { SandboxError } from "../../common/errors.ts";
import { throwIfCanceled } from "../../common/or-canceled.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { optionalWaitInput, pathInput, sandboxIdInput, userInput } from "../inputs.ts";
import { parentOf, pathHints, withHints } from "../replies/error-hints.ts";
import { expiryFact } from "../replies/facts.ts";
import { fittingLines } from "../replies/reply-size.ts";
import { textReply, type Reply } from "../replies/respond.ts";
import { READ_ONLY, defineTool, type ToolContext } from "../tool.ts";
import { MAX_REPLY_EVENTS, type Watcher } from "../watch/watcher.ts";

const input = z.strictObject({
  sandbox_id: sandboxIdInput(),
  path: pathInput("Directory to start watching; or give watcher_id.").optional(),
  watcher_id: z
    .string()
    .max(64)
    .regex(/^[a-zA-Z0-9_-]+$/)
    .optional()
    .describe("Watcher to go on with, from an earlier call."),
  recursive: z.boolean().default(false).describe("Whether subdirectories are watched too."),
  wait_seconds: optionalWaitInput(
    "How long to wait for the first change. Default: 30, or 0 to close a watcher_id.",
  ),
  close: z.boolean().default(false).describe("End the watcher after this call."),
  user: userInput(),
});

const DEFAULT_WAIT_SECONDS = 30;

type Params = z.output<typeof input>;

export const watchPath = defineTool({
  name: "watch_path",
  title: "Watch a directory",
  description:
    "Watches a directory of the sandbox and waits until something in it is created, written, " +
    "removed, renamed or changes its mode, or wait_seconds are over. The reply has a watcher_id: " +
    "call again with it to go on; changes in between are queued and none is missed. Start the " +
    "watch with wait_seconds=0 before you cause the change. To watch one file, watch its " +
    "directory. End with close=true; a watcher that is not asked for 10 minutes ends by itself.",
  toolset: "core",
  input,
  annotations: { ...READ_ONLY, idempotentHint: false },
  async handler(params, context) {
    if ((params.path === undefined) === (params.watcher_id === undefined)) {
      throw new SandboxError("invalid_argument", "give either path or watcher_id");
    }
    const sandbox = await context.attach(params.sandbox_id);
    const { watchers } = context.state;
    const watcher = await find(sandbox, params, context);
    try {
      return await watchers.use(watcher, () => look(watcher, params, context));
    } catch (error) {
      // The reply with the id of a new watcher is lost.
      if (params.watcher_id === undefined) watchers.abandon(watcher);
      throw error;
    }
  },
});

/** Waits for changes and tells them. None is taken from the watcher before its reply is certain. */
async function look(watcher: Watcher, params: Params, context: ToolContext): Promise<Reply<never>> {
  const { watchers } = context.state;
  const seconds = params.wait_seconds ?? defaultWait(params);
  const deadline = seconds === 0 ? AbortSignal.abort() : context.waitLimit(seconds * 1_000);
  const polling = watchers.poll(watcher, deadline, context.signal);
  await withHints(polling, {
    not_found: "Call watch_path with path to start a new one.",
    internal: "Events were lost: list the directory, then start a new watch.",
  });
  const lines = nextLines(watcher);
  // What is left would be lost with the watcher.
  const isLast = lines.length === watcher.held.length;
  const ending = params.close && isLast ? await end(watcher, context) : undefined;
  throwIfCanceled(context.signal);
  watcher.held.splice(0, lines.length);
  watchers.forgetEnded(watcher);
  return reply(watcher, { lines, ending }, { params, context });
}

/** A call that only ends a watcher takes what there is. */
function defaultWait({ close, watcher_id: watcherId }: Params): number {
  return close && watcherId !== undefined ? 0 : DEFAULT_WAIT_SECONDS;
}

/** Ends the watcher; returns what is told where that failed. */
async function end(watcher: Watcher, { state, log }: ToolContext): Promise<string | undefined> {
  try {
    await state.watchers.end(watcher);
    return undefined;
  } catch (error) {
    log.debug({ op: "watcher.end", sandboxId: watcher.sandbox.id, err: error });
    return "watcher not ended: the sandbox did not answer; call again with close=true";
  }
}

async function find(sandbox: Sandbox, params: Params, context: ToolContext): Promise<Watcher> {
  const { watchers } = context.state;
  const { path, watcher_id: watcherId } = params;
  if (watcherId !== undefined) {
    return watchers.find(sandbox.id, watcherId) ?? watchers.adopt(sandbox, watcherId);
  }
  const target = path ?? ".";
  const request = { path: target, isRecursive: params.recursive, user: params.user };
  const hints = pathHints(target, context.suggest);
  return withHints(watchers.create(sandbox, request, context.signal), {
    ...hints,
    invalid_argument: `Only directories can be watched: watch ${parentOf(target)} instead.`,
  });
}

/** The events that one reply holds. */
function nextLines({ held }: Watcher): readonly string[] {
  const next = held.slice(0, MAX_REPLY_EVENTS);
  return fittingLines(next.map(({ type, name }) => `${type} ${quoteName(name)}`));
}

interface Told {
  readonly lines: readonly string[];
  /** Why the watcher was not ended though this call wanted that. */
  readonly ending: string | undefined;
}

function reply(
  watcher: Watcher,
  { lines, ending }: Told,
  call: { readonly params: Params; readonly context: ToolContext },
): Reply<never> {
  const rest = watcher.held.length;
  const facts = [
    `watcher_id: ${quoteName(watcher.id)}`,
    lines.length === 0 ? "no change" : `${lines.length} changes`,
    rest > 0 ? `${rest} more: call again with watcher_id` : undefined,
    watcher.hasLost ? "changes may be missing: list the directory" : undefined,
    watcher.isOver ? OVER : undefined,
    endFact(watcher, { ending, isClosing: call.params.close }),
    expiryFact(call.context, call.params.sandbox_id),
  ];
  watcher.hasLost = false;
  const parts = [lines.join("\n")];
  return textReply(facts, lines.length === 0 ? [] : [{ name: "changes", parts }]);
}

function endFact(
  { isEnded }: Watcher,
  call: { readonly ending: string | undefined; readonly isClosing: boolean },
): string | undefined {
  if (isEnded) return "watcher ended";
  return call.ending ?? (call.isClosing ? NOT_ENDED : undefined);
}

const OVER =
  "the directory itself was moved or removed: this watcher reports nothing more; start a new one";
const NOT_ENDED = "watcher not ended: take the rest first, again with close=true";
