/** Builds of which a line or the end cannot be recorded at first, as on a full disk: they end. */

import { availableParallelism } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { diskFullError, SandboxError } from "../../src/common/errors.ts";
import type { BuildPlan } from "../../src/sandboxes/template-builds/build-request.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine() });
});
afterAll(() => service[Symbol.asyncDispose]());

const plan = (command: string, user = ""): BuildPlan => ({
  from: { kind: "template", reference: "base" },
  force: false,
  steps: [{ type: "RUN", args: [command, user], force: true }],
  startCommand: undefined,
  readyCommand: undefined,
});

function request(name: string) {
  const { builds } = service.embedded.sandboxes;
  const wanted = { name, tags: [], cpus: undefined, memoryMb: undefined };
  const { template, build } = builds.request(wanted);
  const { templateId } = template;
  return {
    buildId: build.buildId,
    start: (command: string, user?: string) =>
      builds.start(templateId, build.buildId, plan(command, user)),
    state: () => builds.status(templateId, build.buildId, FILTER).build.status,
    reasons: () =>
      builds
        .lines(templateId, build.buildId, FILTER)
        .filter(({ level }) => level === "error")
        .map(({ message }) => message),
  };
}

const full = () => {
  throw new SandboxError("resource_exhausted", "database: no space left on the disk");
};

test("the end of a build is told at once, recorded when there is space, and said once", async () => {
  const { templateBuilds } = service.embedded.store;
  const put = templateBuilds.put.bind(templateBuilds);
  const refused = Promise.withResolvers<void>();
  const refuse: typeof put = (record) => {
    if (record.status !== "error") return put(record);
    refused.resolve();
    return full();
  };
  Object.assign(templateBuilds, { put: refuse });
  const build = request("failing");
  await build.start("exit 3");
  await refused.promise;
  expect(build.state()).toBe("error");
  Object.assign(templateBuilds, { put });
  const recorded = () => templateBuilds.get(build.buildId)?.status;
  await expect.poll(recorded, { timeout: 10_000 }).toBe("error");
  await expect.poll(build.state, { timeout: 10_000 }).toBe("error");
  expect(build.reasons()).toEqual([expect.stringContaining("3")]);
});

test("a step of an unknown user is told by its command and the user", async () => {
  const build = request("user-unknown");
  await build.start("exit 0", "nobody-here");
  await expect.poll(build.state, { timeout: 10_000 }).toBe("error");
  expect(build.reasons()).toEqual([
    'command "exit 0": no user "nobody-here" in the sandbox (make the account in a step before)',
  ]);
});

test("a disk that is full when a step is recorded is told as that of the service", async () => {
  const { builds } = service.embedded.store;
  const put = builds.put.bind(builds);
  const refuse: typeof put = (record) => {
    if (record.cacheKey === undefined) return put(record);
    throw diskFullError("database");
  };
  Object.assign(builds, { put: refuse });
  const build = request("disk-full");
  await build.start("exit 0");
  await expect.poll(build.state, { timeout: 10_000 }).toBe("error");
  Object.assign(builds, { put });
  expect(build.reasons()).toEqual([
    expect.stringMatching(/^no space left on the disk of the service \(delete /),
  ]);
});

test("a build that waits runs, even when it cannot say that it waits", async () => {
  const { buildLines } = service.embedded.store;
  const append = buildLines.append.bind(buildLines);
  const names = Array.from({ length: availableParallelism() }, (_, index) => `long-${index}`);
  for (const name of names) await request(name).start("sleep 2");
  Object.assign(buildLines, { append: full });
  const build = request("last");
  const started = build.start("true");
  await expect(started.finally(() => Object.assign(buildLines, { append }))).resolves.toBe(
    undefined,
  );
  await expect.poll(build.state, { timeout: 20_000 }).toBe("ready");
});
