/** The answers to the opening of a host, as `npm run generate` recorded them of the live server. */

import { instructionsFor } from "../instructions.ts";
import recorded from "../recorded-opening.json" with { type: "json" };
import { selectTools, type ToolSelection } from "../selection.ts";
import type { OpeningAnswers } from "./opening.ts";

/** @throws SandboxError invalid_argument for a name that no tool has. */
export function answersFor(selection: ToolSelection): OpeningAnswers {
  const tools = recorded.tools.map(({ isCore, listed }) => ({
    name: listed.name,
    toolset: isCore ? ("core" as const) : ("all" as const),
    annotations: listed.annotations,
    listed,
  }));
  const selected = selectTools(tools, selection);
  const instructions = instructionsFor(selected.map(({ name }) => name));
  return {
    // In the place of the recorded one, which is for all tools.
    initialize: { ...recorded.initialize, instructions },
    tools: selected.map(({ listed }) => listed),
  };
}
