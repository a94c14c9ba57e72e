/** Services that belong to a built-in template: they call the daemon on behalf of their clients. */

import type { Store } from "../store/store.ts";

/** By the name of the template. A template of a team that has the name is another one. */
const SERVICE_PORTS: Readonly<Record<string, readonly number[]>> = {
  "code-interpreter": [49_999],
};

/** Ports whose service is given the token of the daemon. */
export function servicePortsOf(
  store: Pick<Store, "templates">,
  templateId: string,
): readonly number[] {
  const template = store.templates.get(templateId);
  if (template?.kind !== "built-in" || template.name === null) return [];
  return Object.hasOwn(SERVICE_PORTS, template.name) ? (SERVICE_PORTS[template.name] ?? []) : [];
}
