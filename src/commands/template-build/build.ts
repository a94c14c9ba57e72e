/** `template build [DIR]`: a template from a Dockerfile, built by the service of this machine. */

import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Service } from "../../client/service.ts";
import { errorText, SandboxError } from "../../common/errors.ts";
import { oneLine } from "../../common/untrusted-text.ts";
import { EXIT_OK, type CommandContext } from "../program/command.ts";
import type { ProgressOutput } from "../program/progress-bar.ts";
import { openLocalService } from "../service/local-service.ts";
import { requireDerivedName } from "../templates/derived-name.ts";
import { toBase } from "./base-reference.ts";
import { readDockerfile, type DockerfilePlan } from "./dockerfile.ts";
import { prepareSteps, type PreparedStep } from "./prepare-steps.ts";
import { showBuildOn } from "./show-build.ts";

const EXIT_FAILED = 1;
const POLL_MS = 250;
const MAX_NAME_CHARACTERS = 100;
const MIRROR_HINT = ": with --log-level info the log has what the mirror answered";

export async function buildTemplate(
  { config, log }: CommandContext,
  given: string | undefined,
  signal: AbortSignal,
): Promise<number> {
  const folder = resolve(given ?? ".");
  const name = config.templateName ?? requireDerivedName(nameOf(folder));
  const file = resolve(config.dockerfile ?? join(folder, "Dockerfile"));
  const plan = readDockerfile(await readText(file), basename(file));
  const { steps, notes } = await prepareSteps({ folder, file }, plan, signal);
  await using stack = new AsyncDisposableStack();
  // Steps take no sandbox of a pool.
  const unpooled = { ...config, pool: 0, poolTemplates: [] };
  const opened = await openLocalService(unpooled, { log, signal }, stack);
  if ("reason" in opened) {
    throw new SandboxError("unavailable", opened.reason, { hint: opened.hint });
  }
  const mirrorHint =
    config.registryMirrors.length > 0 && !log.isLevelEnabled("info") ? MIRROR_HINT : "";
  const job = { plan, steps, notes, name, output: process.stdout, mirrorHint };
  return await run(opened.service, job, signal);
}

async function readText(path: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    const hint = "template build [DIR] [-f FILE] [--name N]";
    throw new SandboxError("not_found", `${path} cannot be read: ${errorText(error)}`, {
      cause: error,
      hint,
    });
  }
  // The words of a command would become others.
  if (!isUtf8(bytes)) throw new SandboxError("invalid_argument", `${path} is not in UTF-8`);
  return bytes.toString("utf8");
}

interface Job {
  readonly plan: DockerfilePlan;
  readonly steps: readonly PreparedStep[];
  readonly notes: readonly string[];
  readonly name: string;
  readonly output: ProgressOutput;
  /** Behind a fault of the image: a reply of the service does not name a mirror or its answer. */
  readonly mirrorHint: string;
}

async function run({ control }: Service, job: Job, signal: AbortSignal): Promise<number> {
  const { plan, steps, notes, name, output, mirrorHint } = job;
  const { templateID, buildID } = await control.requestBuild({ name }, signal);
  for (const { files } of steps) {
    if (files === undefined) continue;
    const { present, url } = await control.buildFiles(templateID, files.hash, signal);
    if (present) continue;
    await control.uploadFiles(url, { bytes: files.bytes, content: files.open() }, signal);
  }
  const base = toBase(plan.base, await control.templates(signal));
  const build = { templateId: templateID, buildId: buildID };
  await control.startBuild(
    build,
    {
      fromDockerfile: true,
      ...base,
      steps: steps.map(({ step, files }) => ({
        type: step.type,
        args: [...step.args],
        ...(files !== undefined && { filesHash: files.hash }),
      })),
      ...(plan.startCommand !== undefined && { startCmd: plan.startCommand }),
    },
    signal,
  );
  for (const note of notes) output.write(`${note}\n`);
  using shown = showBuildOn(output, { name, steps: steps.length });
  let offset = 0;
  for (;;) {
    const status = await control.buildStatus(build, offset, signal);
    offset += status.logEntries.length;
    for (const line of status.logEntries) shown.line(line);
    if (status.logEntries.length > 0) continue;
    if (status.status === "ready") {
      shown.end(`template ${name} is ready: ${templateID}`);
      return EXIT_OK;
    }
    if (status.status === "error") {
      const { message = "it failed", step = "" } = status.reason ?? {};
      const line = steps[Number(step) - 1]?.step.line;
      const place = line === undefined ? "" : ` at line ${line}`;
      shown[Symbol.dispose]();
      const hint = step === "base" && "fromImage" in base ? mirrorHint : "";
      const fault = `template ${name} was not built: step ${step}${place}: ${oneLine(message)}${hint}`;
      process.stderr.write(`sandbox-mcp: ${fault}\n`);
      return EXIT_FAILED;
    }
    await delay(POLL_MS, undefined, { signal });
  }
}

/** What a template may be called, of the name of a folder. */
function nameOf(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, MAX_NAME_CHARACTERS);
  return name === "" ? "template" : name;
}
