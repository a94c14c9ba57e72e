/** The file of `--pod-template`. */

import { readFile } from "node:fs/promises";
import { parsePodTemplate, type PodTemplate } from "../cluster/pod-template.ts";
import { errorText, SandboxError } from "../common/errors.ts";
import type { Config } from "../config.ts";

/**
 * Nothing where none is named.
 * @throws SandboxError failed_precondition for a file that cannot be read, or may not be used.
 */
export async function readPodTemplate({
  cluster: { podTemplate: path },
}: Config): Promise<PodTemplate> {
  if (path === undefined) return {};
  try {
    return parsePodTemplate(await readFile(path, "utf8"), path);
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const message = `pod template ${path}: ${errorText(error)}`;
    throw new SandboxError("failed_precondition", message, { cause: error });
  }
}
