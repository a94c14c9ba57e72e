/** Tool: waits for changes in a directory. */

import type { Sandbox } from "../../client/envd.ts";
import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { quoteName } from "../../common/untrusted-text.ts";
import { parentOf, pathHints, withHints } from "../error-hints.ts";
import { expiryFact } from "../facts.ts";
import { pathInput, sandboxIdInput, userInput, waitInput } from "../inputs.ts";
import { countFitting } from "../reply-size.ts";
import { textReply, type Reply } from "../respond.ts";
import { READ_ONLY, defineTool, type ToolContext } from "../tool.ts";
import type { Watcher } from "../watchers.ts";

/** More events are left to the next call. */
const MAX_EVENTS = 500;

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
  wait_seconds: waitInput(30, "How long to wait for the first change; 0 only looks."),
  close: z.boolean().default(false).describe("End the watcher after this call."),
  user: userInput(),
});

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
    const polling = watchers.poll(watcher, params.wait_seconds * 1_000, context.signal);
    await withHints(polling, {
      not_found: "Call watch_path with path to start a new one.",
      internal: "Events were lost: list the directory, then start a new watch.",
    });
    const { text, isRest } = reply(watcher, params, context);
    // What is left is lost with the watcher.
    if (params.close && !isRest) await watchers.remove(watcher, context.signal);
    return text;
  },
});

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

interface WatchReply {
  readonly text: Reply<never>;
  /** Whether changes are left for another call. */
  readonly isRest: boolean;
}

function reply(watcher: Watcher, params: Params, context: ToolContext): WatchReply {
  const next = watcher.held.slice(0, MAX_EVENTS);
  const lines = next.map(({ type, name }) => `${type} ${quoteName(name)}`);
  const shown = lines.slice(0, countFitting(lines));
  watcher.held.splice(0, shown.length);
  const rest = watcher.held.length;
  const facts = [
    `watcher_id: ${quoteName(watcher.id)}`,
    shown.length === 0 ? "no change" : `${shown.length} changes`,
    rest > 0 ? `${rest} more: call again with watcher_id` : undefined,
    watcher.hasLost ? "older changes were dropped: list the directory" : undefined,
    watcher.isOver ? OVER : undefined,
    closeFact(params.close, rest),
    expiryFact(context, params.sandbox_id),
  ];
  watcher.hasLost = false;
  const parts = [shown.join("\n")];
  const text = textReply(facts, shown.length === 0 ? [] : [{ name: "changes", parts }]);
  return { text, isRest: rest > 0 };
}

const OVER =
  "the directory itself was moved or removed: this watcher reports nothing more; start a new one";

function closeFact(isClosing: boolean, rest: number): string | undefined {
  if (!isClosing) return undefined;
  return rest > 0
    ? "watcher not ended: take the rest first, again with close=true"
    : "watcher ended";
}
