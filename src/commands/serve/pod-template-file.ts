/** The file of `--pod-template`, in YAML or JSON. */

import { readFile } from "node:fs/promises";
import { toPodTemplate, type PodTemplate } from "../../cluster/pods/pod-template.ts";
import { errorText, SandboxError } from "../../common/errors.ts";
import type { Config } from "../../config.ts";

/** Larger than any Pod that Kubernetes takes is worth. */
const MAX_BYTES = 262_144;
/** Each alias may repeat what others repeat. */
const MAX_ALIASES = 100;

/**
 * Nothing where none is named.
 * @throws SandboxError failed_precondition for a file that cannot be read, or may not be used.
 */
export async function readPodTemplate({
  cluster: { podTemplate: path },
}: Config): Promise<PodTemplate> {
  if (path === undefined) return {};
  try {
    return toPodTemplate(await parseFile(await readFile(path)), path);
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const message = `pod template ${path}: ${errorText(error)}`;
    throw new SandboxError("failed_precondition", message, { cause: error });
  }
}

/** What the text of one document says. */
async function parseFile(file: Buffer): Promise<unknown> {
  if (file.length > MAX_BYTES) throw new Error(`it exceeds ${MAX_BYTES} bytes`);
  const text = file.toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    return parseYaml(text);
  }
}

async function parseYaml(text: string): Promise<unknown> {
  const { parseAllDocuments } = await import("yaml");
  const documents = [...parseAllDocuments(text, { stringKeys: true })];
  const [document] = documents;
  const [fault] = documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]);
  // What follows the first line is an excerpt of the file.
  if (fault !== undefined) throw new Error(fault.message.split("\n", 1)[0]);
  if (document === undefined || documents.length > 1) {
    throw new Error(`it has ${documents.length} documents in place of one`);
  }
  return document.toJS({ maxAliasCount: MAX_ALIASES });
}
