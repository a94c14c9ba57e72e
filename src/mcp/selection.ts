/** Which tools a server offers, and when they can be called. */

import { SandboxError } from "../common/errors.ts";
import type { Tool } from "./tool.ts";

export interface ToolSelection {
  readonly toolset: "core" | "all";
  /** Exactly these tools, whatever their toolset. */
  readonly names?: readonly string[] | undefined;
  /** Only tools that change nothing. */
  readonly isReadOnly: boolean;
}

type SelectableTool = Pick<Tool, "name" | "toolset"> & {
  readonly annotations: Pick<Tool["annotations"], "readOnlyHint">;
};

/**
 * The selected tools in the order of the table.
 * @throws SandboxError invalid_argument for a name that no tool has, and where none is left.
 */
export function selectTools<T extends SelectableTool>(
  tools: readonly T[],
  selection: ToolSelection,
): readonly T[] {
  const { names, toolset, isReadOnly } = selection;
  const unknown = names?.filter((name) => !tools.some((tool) => tool.name === name)) ?? [];
  if (unknown.length > 0) {
    throw new SandboxError("invalid_argument", `--tools: no tool is called ${unknown.join(", ")}`, {
      hint: "sandbox-mcp manifest lists all tools",
    });
  }
  const selected = tools
    .filter((tool) =>
      names === undefined
        ? toolset === "all" || tool.toolset === "core"
        : names.includes(tool.name),
    )
    .filter((tool) => !isReadOnly || tool.annotations.readOnlyHint);
  if (selected.length > 0) return selected;
  throw new SandboxError("invalid_argument", "--read-only leaves none of the tools of --tools", {
    hint: "name one that changes nothing, or leave one of the two out",
  });
}

/** The same tools; each call waits for the service, and fails as `ready` does without one. */
export function whenReady(tools: readonly Tool[], ready: () => Promise<void>): readonly Tool[] {
  return tools.map((tool) => ({
    ...tool,
    async handler(input, context) {
      await ready();
      return tool.handler(input, context);
    },
  }));
}
