/** Removes the Pod of one run of a sandbox: that of a later run has the same name. */

import { isConflict, type ClusterApi } from "../api/api.ts";
import { removeObject } from "../api/object-calls.ts";
import type { Pod } from "../api/objects.ts";

/**
 * One that is gone is fine, and so is another one in its place.
 * @param graceSeconds 0 removes it without word of its node
 */
export async function removePod(
  api: ClusterApi,
  { metadata }: Pod,
  graceSeconds?: 0,
): Promise<void> {
  const { name, uid } = metadata;
  try {
    await removeObject(api, `pods/${name}`, {
      preconditions: { uid },
      ...(graceSeconds !== undefined && { gracePeriodSeconds: graceSeconds }),
    });
  } catch (error) {
    if (!isConflict(error)) throw error;
  }
}
