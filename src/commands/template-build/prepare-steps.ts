/** The steps of a Dockerfile with the files that they copy. */

import { basename } from "node:path";
import { causeCode, errorText, SandboxError, type ErrorCode } from "../../common/errors.ts";
import { FaultList } from "../program/fault-list.ts";
import { isArchive } from "./archive-content.ts";
import { collectFiles, readIgnore, type FileSet } from "./context-files.ts";
import type { DockerfilePlan, DockerfileStep } from "./dockerfile.ts";

/** A step that is ready to be sent, and the files that go with it. */
export interface PreparedStep {
  readonly step: DockerfileStep;
  readonly files: FileSet | undefined;
}

interface PreparedSteps {
  readonly steps: readonly PreparedStep[];
  /** Those of the plan, and what is left out of it. */
  readonly notes: readonly string[];
}

/**
 * A COPY of a pattern that matches nothing is no step.
 * @throws FaultList with file and line of all files that cannot be copied
 */
export async function prepareSteps(
  folder: string,
  plan: DockerfilePlan,
  file: string,
): Promise<PreparedSteps> {
  const rules = await readIgnore(folder, file);
  const steps: PreparedStep[] = [];
  const notes = [...plan.notes];
  const faults: { readonly code: ErrorCode; readonly text: string }[] = [];
  for (const step of plan.steps) {
    if (step.type !== "COPY") {
      steps.push({ step, files: undefined });
      continue;
    }
    const place = `${basename(file)}:${step.line}: ${step.isAdd ? "ADD" : "COPY"}`;
    try {
      const files = await collectFiles(folder, step.args, rules);
      if (files.isEmpty) {
        notes.push(`${place} ${step.args[0] ?? ""} matches no file that is not ignored`);
        continue;
      }
      if (step.isAdd) await refuseArchives(files);
      steps.push({ step, files });
    } catch (error) {
      const code = error instanceof SandboxError ? error.code : "failed_precondition";
      // Such as a folder that this user may not read.
      if (code === "failed_precondition" && causeCode(error) === undefined) throw error;
      faults.push({ code, text: `${place}: ${errorText(error)}` });
    }
  }
  const [first] = faults;
  if (first !== undefined) {
    throw new FaultList(
      first.code,
      faults.map(({ text }) => text),
    );
  }
  return { steps, notes };
}

async function refuseArchives({ sources }: FileSet): Promise<void> {
  for (const path of sources) {
    if (!(await isArchive(path))) continue;
    const message = `${basename(path)} is an archive, which is not unpacked: use COPY, and unpack it by RUN`;
    throw new SandboxError("invalid_argument", message);
  }
}
