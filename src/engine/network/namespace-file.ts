/** Files that are namespaces. */

import { statfsSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../common/errors.ts";

/** NSFS_MAGIC: the file system of files that are namespaces. */
export const NAMESPACE_TYPE = 0x6e_73_66_73;

/** Why nothing can be done in the namespace of this file; undefined for one that is a namespace. */
export function namespaceFault(path: string): string | undefined {
  try {
    return statfsSync(path).type === NAMESPACE_TYPE ? undefined : `${path} is no namespace`;
  } catch (error) {
    return `${path}: ${errorText(error)}`;
  }
}

/** The file of the network namespace of a container whose kernel is made after it. */
export function networkFile(directory: string): string {
  return join(directory, "runtime/network");
}
