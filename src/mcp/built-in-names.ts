/** The names of built-in templates. A template of a client with such a name would replace the built-in one. */

import { SandboxError } from "../common/errors.ts";
import { parseTemplateReference } from "../wire/address.ts";

const BUILT_IN: ReadonlySet<string> = new Set([
  "base",
  "code-interpreter",
  "code-interpreter-v1",
  "host",
]);

/**
 * With such a name, sandboxes of all clients of the account would start from the new template unnoticed.
 * @throws SandboxError invalid_argument
 */
export function refuseBuiltInName(name: string): void {
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
