/** What a tool is. It knows schemas and the service, not the MCP SDK. */

import type { Sandbox } from "../client/envd.ts";
import type { Service } from "../client/service.ts";
import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { z } from "../common/schema.ts";
import type { SendProgress } from "./replies/progress.ts";
import type { Reply } from "./replies/respond.ts";
import type { McpState } from "./state.ts";

/** What a host may assume of a tool. All four are set: a host assumes the worst of an absent one. */
export interface ToolHints {
  readonly readOnlyHint: boolean;
  readonly destructiveHint: boolean;
  readonly idempotentHint: boolean;
  readonly openWorldHint: boolean;
}

/** Hints of a tool that adds something, and something else when it is called again. */
export const ADDITIVE: ToolHints = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
};
/** Hints of a tool that overwrites nothing, and changes nothing more when it is called again. */
export const IDEMPOTENT: ToolHints = { ...ADDITIVE, idempotentHint: true };
export const READ_ONLY: ToolHints = { ...IDEMPOTENT, readOnlyHint: true };
/** Hints of a tool that can overwrite or end something. */
export const DESTRUCTIVE: ToolHints = { ...ADDITIVE, destructiveHint: true };
export const IDEMPOTENT_DESTRUCTIVE: ToolHints = { ...DESTRUCTIVE, idempotentHint: true };

export interface Tool<In extends z.ZodObject = z.ZodObject, Out extends z.ZodObject = z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** `core` tools are listed by default, the others with the toolset `all`. */
  readonly toolset: "core" | "all";
  readonly input: In;
  /** Only where the reply is a small record. */
  readonly output?: Out;
  readonly annotations: ToolHints;
  handler(input: z.output<In>, context: ToolContext): Promise<Reply<z.input<Out>>>;
}

/**
 * The output schema as it is listed: a record about a sandbox may say that this ends soon.
 * Undefined for a tool that replies with text alone.
 */
export function listedOutput({ input, output }: Tool): z.ZodObject | undefined {
  if (output === undefined) return undefined;
  const isAboutSandbox = "sandbox_id" in input.shape || "sandbox_id" in output.shape;
  return isAboutSandbox ? output.extend({ time_left: z.string().optional() }) : output;
}

/** Advice that names a tool; empty when that tool is not enabled. */
export type Suggest = (tool: string, sentence: string) => string;

/** What a handler may use during one call. */
export interface ToolContext {
  /** Fires when the call is cancelled or the server ends. */
  readonly signal: AbortSignal;
  /**
   * For a wait that a caller asked for: fires after so many milliseconds, with `signal`, and when the
   * server begins to end. What has come by then is told.
   */
  waitLimit(ms: number): AbortSignal;
  readonly log: Logger;
  readonly clock: Clock;
  readonly service: Service;
  readonly state: McpState;
  /** Identifies the caller; the same for every call on stdio. */
  readonly principal: string;
  /** Absent when the host asked for no progress. */
  readonly progress: SendProgress | undefined;
  /** Of all images of the reply, by what carries it. */
  readonly maxImageBytes: number;
  /**
   * The sandbox, noted as used by this server.
   * @throws SandboxError not_found with a hint.
   */
  attach(sandboxId: string): Promise<Sandbox>;
  readonly suggest: Suggest;
}

/** Gives the handler of a tool the types of its schemas. */
export function defineTool<In extends z.ZodObject, Out extends z.ZodObject = z.ZodObject>(
  tool: Tool<In, Out>,
): Tool<In, Out> {
  return tool;
}
