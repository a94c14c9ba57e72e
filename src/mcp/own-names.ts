/** Names that tools do not give away: what has one is found in the place of a built-in template. */

import { SandboxError } from "../common/errors.ts";
import { parseTemplateReference } from "../wire/address.ts";

const BUILT_IN: ReadonlySet<string> = new Set([
  "base",
  "code-interpreter",
  "code-interpreter-v1",
  "host",
]);

/**
 * The sandboxes of every client of the account would start from it, and none would be told.
 * @throws SandboxError invalid_argument
 */
export function requireOwnName(name: string): void {
  const alias = builtInName(name);
  if (alias === undefined) return;
  throw new SandboxError("invalid_argument", `${alias} is the name of a built-in template`, {
    hint: "Choose another name.",
  });
}

/** The name of a built-in template that a reference has; undefined for any other. */
export function builtInName(reference: string): string | undefined {
  const alias = parseTemplateReference(reference)?.alias;
  return alias !== undefined && BUILT_IN.has(alias) ? alias : undefined;
}
