/** A build of a template with files, a command and a start command, and a sandbox from it. */

import { randomBytes } from "node:crypto";
import { z } from "../../../src/common/schema.ts";
import type { StepName } from "../../../src/common/steps.ts";
import { tar, tarEntry } from "../images/tar-writer.ts";
import type { FaultHome } from "./fault-home.ts";

/** In the order in which they come. */
export const BUILD_STEPS: readonly StepName[] = [
  "upload.written",
  "upload.kept",
  "build.begun",
  "build.based",
  "build.started",
  "build.stepped",
  "build.cached",
  "build.squashed",
  "build.proven",
  "build.committed",
  "start.ready",
];

const POLL_MS = 50;
const madeSchema = z.object({ templateID: z.string(), buildID: z.string() });
const filesSchema = z.object({ url: z.string() });
const statusSchema = z.object({
  status: z.string(),
  reason: z.object({ message: z.string(), step: z.string() }).optional(),
});

export type BuildState = z.infer<typeof statusSchema>;

/** A build that is requested; nothing of it is in the cache. */
export interface FaultBuild {
  readonly templateId: string;
  readonly buildId: string;
  readonly hash: string;
}

export async function requestFaultBuild(home: FaultHome): Promise<FaultBuild> {
  const answer = await home.call("POST", "/v3/templates", { name: "faulty" });
  const { templateID: templateId, buildID: buildId } = madeSchema.parse(answer?.body);
  return { templateId, buildId, hash: randomBytes(32).toString("hex") };
}

/** Plays it to its end; the service may die at any moment. */
export async function playFaultBuild(home: FaultHome, build: FaultBuild): Promise<void> {
  const { templateId, buildId, hash } = build;
  const files = await home.call("GET", `/templates/${templateId}/files/${hash}`);
  const archive = tar(tarEntry({ path: "a.txt", data: "hello" }));
  const sent = await home.put(filesSchema.parse(files?.body).url, new Uint8Array(archive));
  if (sent?.status !== 201) return;
  const steps = [
    { type: "COPY", args: ["a.txt", "/srv/a.txt", "", ""], filesHash: hash },
    { type: "RUN", args: [`echo ${hash} > hash.txt`] },
  ];
  const plan = { fromTemplate: "base", steps, startCmd: "sleep 1000", readyCmd: "pgrep sleep" };
  await home.call("POST", `/v2/templates/${templateId}/builds/${buildId}`, plan);
  for (;;) {
    const state = await stateOfBuild(home, build);
    if (state === undefined || state.status === "error") return;
    if (state.status === "ready") break;
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
  const body = { templateID: templateId, timeout: 3600, secure: false };
  await home.call("POST", "/sandboxes", body);
}

/** Undefined when the service does not answer. */
export async function stateOfBuild(
  home: FaultHome,
  { templateId, buildId }: FaultBuild,
): Promise<BuildState | undefined> {
  const answer = await home.call("GET", `/templates/${templateId}/builds/${buildId}/status`);
  return answer === undefined ? undefined : statusSchema.parse(answer.body);
}
