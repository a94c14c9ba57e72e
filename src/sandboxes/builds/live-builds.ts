/**
 * Live builds: the files and the memory of a sandbox in which the commands of a template run. Each is
 * a build beside that of the template, which no client sees: sandboxes go on from it where their
 * programs may, and else start from the build of the template.
 */

import type { BuildRecord, Store } from "../../store/store.ts";

/** Their templates do not exist: no client can refer to them. */
const PREFIX = "live:";

export function liveTemplateId(buildId: string): string {
  return `${PREFIX}${buildId}`;
}

/** Whether a build is live, and the one that it belongs to is still there. */
export function isNeededLive(store: Store, { templateId }: BuildRecord): boolean {
  if (!templateId.startsWith(PREFIX)) return false;
  return store.builds.get(templateId.slice(PREFIX.length)) !== undefined;
}

/**
 * Forgets the live builds of these; one that a sandbox stands on goes with its last sandbox. Returns
 * what was forgotten.
 */
export function forgetLive(
  store: Store,
  builds: readonly Pick<BuildRecord, "buildId">[],
): BuildRecord[] {
  const live = builds
    .flatMap(({ buildId }) => store.builds.ofTemplate(liveTemplateId(buildId)))
    .filter(({ buildId }) => store.sandboxes.countOfBuild(buildId) === 0);
  for (const { buildId } of live) store.builds.remove(buildId);
  return live;
}
