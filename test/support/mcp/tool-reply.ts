/** What a tool answered, in the form that all tests share. */

import { withoutMark } from "../marks.ts";

export interface ToolReply {
  /** Without the random word of the lines around what it quotes. */
  readonly text: string;
  readonly isError: boolean;
  readonly fields: Readonly<Record<string, unknown>>;
}

export function toReply(result: Readonly<Record<string, unknown>>): ToolReply {
  const content: readonly unknown[] = Array.isArray(result["content"]) ? result["content"] : [];
  const texts = content.flatMap((part) =>
    typeof part === "object" && part !== null && "text" in part ? [String(part.text)] : [],
  );
  const { structuredContent: fields } = result;
  return {
    text: withoutMark(texts.join("\n")),
    isError: result["isError"] === true,
    fields: typeof fields === "object" && fields !== null ? { ...fields } : {},
  };
}
