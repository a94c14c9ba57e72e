/** Single objects of the namespace, read and removed by their path. */

import { hasErrorCode } from "../../common/errors.ts";
import type { z } from "../../common/schema.ts";
import type { ApiCall, ClusterApi } from "./api.ts";

/** Undefined when there is none. */
export async function readObject<T>(
  api: ClusterApi,
  call: Pick<ApiCall, "path" | "signal">,
  schema: z.ZodType<T>,
): Promise<T | undefined> {
  try {
    return schema.parse(await api.call({ method: "GET", ...call }));
  } catch (error) {
    if (hasErrorCode(error, "not_found")) return undefined;
    throw error;
  }
}

/** Removes an object; one that is gone is fine. */
export async function removeObject(
  api: ClusterApi,
  path: string,
  options: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const body = { apiVersion: "v1", kind: "DeleteOptions", ...options };
  try {
    await api.call({ method: "DELETE", path, body });
  } catch (error) {
    if (!hasErrorCode(error, "not_found")) throw error;
  }
}
