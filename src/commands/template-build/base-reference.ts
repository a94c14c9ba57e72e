/** What FROM of a Dockerfile means for a service: a template of this name comes before an image. */

import { builtInName } from "../../mcp/built-in-names.ts";

/** Of a template that a service lists. */
interface ListedNames {
  readonly templateID: string;
  readonly names: readonly string[];
  readonly aliases: readonly string[];
}

export function toBase(
  base: string,
  listed: readonly ListedNames[],
): { readonly fromTemplate: string } | { readonly fromImage: string } {
  const name = base.replace(/:[^/:]*$/, "");
  // A built-in template is listed when it was built, which its first use waits for.
  const isBuiltIn = !name.includes("/") && builtInName(name) !== undefined;
  const isTemplate =
    isBuiltIn ||
    listed.some(({ names, aliases, templateID }) =>
      [templateID, ...names, ...aliases].includes(name),
    );
  return isTemplate ? { fromTemplate: base } : { fromImage: base };
}
