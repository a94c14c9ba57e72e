/** Names of templates that no user typed: they follow from a directory, an image or a file. */

import { SandboxError } from "../../common/errors.ts";
import { builtInName } from "../../mcp/built-in-names.ts";

/**
 * The name, unless a built-in template has it: all sandboxes of that name would start from the new one.
 * @throws SandboxError invalid_argument
 */
export function requireDerivedName(name: string): string {
  const taken = builtInName(name);
  if (taken === undefined) return name;
  throw new SandboxError("invalid_argument", `${taken} is the name of a built-in template`, {
    hint: `choose another one with --name, or take its place with --name ${taken}`,
  });
}
