/** The steps of a Dockerfile with the files that they copy. */

import { basename } from "node:path";
import { causeCode, errorText, SandboxError } from "../../common/errors.ts";
import { FaultList } from "../program/fault-list.ts";
import { isArchive } from "./archive-content.ts";
import { findFiles, readIgnore, type FileSet, type FoundFiles } from "./context-files.ts";
import type { DockerfilePlan, DockerfileStep } from "./dockerfile.ts";

/** A step that is ready to be sent, and the files that go with it. */
export interface PreparedStep {
  readonly step: DockerfileStep;
  readonly files: FileSet | undefined;
}

interface BuildPlace {
  /** Whose files are copied. */
  readonly folder: string;
  /** The Dockerfile. */
  readonly file: string;
}

interface PreparedSteps {
  readonly steps: readonly PreparedStep[];
  /** Those of the plan, and what is left out of it. */
  readonly notes: readonly string[];
}

/**
 * A COPY of a pattern that matches nothing is no step.
 * @throws FaultList with file and line of all sources that are refused, before the content of any is read
 * @throws SandboxError with file and line of the first one whose content cannot be read
 */
export async function prepareSteps(
  { folder, file }: BuildPlace,
  plan: DockerfilePlan,
  signal: AbortSignal,
): Promise<PreparedSteps> {
  const rules = await readIgnore(folder, file);
  const placeOf = ({ line, isAdd }: DockerfileStep) =>
    `${basename(file)}:${line}: ${isAdd ? "ADD" : "COPY"}`;
  const notes = [...plan.notes];
  const faults: SandboxError[] = [];
  const found: { readonly step: DockerfileStep; readonly files: FoundFiles | undefined }[] = [];
  for (const step of plan.steps) {
    signal.throwIfAborted();
    try {
      const files = step.type === "COPY" ? await findFiles(folder, step.args, rules) : undefined;
      if (files !== undefined && step.isAdd) await refuseArchives(files);
      if (files?.isEmpty !== true) found.push({ step, files });
      else notes.push(`${placeOf(step)} ${step.args[0] ?? ""} matches no file that is not ignored`);
    } catch (error) {
      faults.push(toFault(error, placeOf(step)));
    }
  }
  const [first] = faults;
  if (first !== undefined) {
    throw new FaultList(
      first.code,
      faults.map(({ message }) => message),
    );
  }
  const steps: PreparedStep[] = [];
  for (const { step, files } of found) {
    try {
      steps.push({ step, files: await files?.read(signal) });
    } catch (error) {
      throw toFault(error, placeOf(step));
    }
  }
  return { steps, notes };
}

/** @throws what says nothing of the files */
function toFault(error: unknown, place: string): SandboxError {
  const code = error instanceof SandboxError ? error.code : "failed_precondition";
  // Such as a folder that this user may not read.
  if (code === "failed_precondition" && causeCode(error) === undefined) throw error;
  return new SandboxError(code, `${place}: ${errorText(error)}`, { cause: error });
}

async function refuseArchives({ sources }: FoundFiles): Promise<void> {
  for (const path of sources) {
    if (!(await isArchive(path))) continue;
    const message = `${basename(path)} is an archive, which is not unpacked: use COPY, and unpack it by RUN`;
    throw new SandboxError("invalid_argument", message);
  }
}
