/** The log of a build that fails: its last lines are there when its state is, and none too many. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { BuildPlan, BuildStep } from "../../src/sandboxes/template-builds/build-request.ts";
import { failUnfinished } from "../../src/sandboxes/template-builds/end-build.ts";
import type { TemplateBuildRecord } from "../../src/store/build-records.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";

const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ engine: createLayerEngine() });
});
afterAll(() => service[Symbol.asyncDispose]());

const run = (command: string): BuildStep => ({ type: "RUN", args: [command], force: true });

function plan(more: Partial<BuildPlan>): BuildPlan {
  return {
    from: { kind: "template", reference: "base" },
    force: false,
    steps: [],
    startCommand: undefined,
    readyCommand: undefined,
    ...more,
  };
}

function request(name: string) {
  const { builds } = service.embedded.sandboxes;
  const wanted = { name, tags: [], cpus: undefined, memoryMb: undefined };
  const { template, build } = builds.request(wanted);
  const { templateId } = template;
  return {
    start: (given: BuildPlan) => builds.start(templateId, build.buildId, given),
    status: () => builds.status(templateId, build.buildId, FILTER),
    lines: () => builds.lines(templateId, build.buildId, FILTER).map(({ message }) => message),
  };
}

const none = () => {
  throw new Error("not asked");
};
/**
 * Of one write, unlike the shell's own printf: who reads the first line has the rest of it, too. What waits
 * ends with its shell, as it would with a container.
 */
const TWO_LINES = "env printf 'first\\nunfinished'; tail --pid=$$ -s 0.1 -f /dev/null";
const CANCELLED = expect.stringMatching(/^cancelled: build .* of the same template was started$/);

test("what a step wrote last is in the log of a build that is cancelled, before the reason", async () => {
  const build = request("cancelled");
  await build.start(plan({ steps: [run(TWO_LINES)] }));
  await expect.poll(build.lines).toContain("first");
  await request("cancelled").start(plan({}));
  await expect.poll(() => build.status().build.status).toBe("error");
  expect(build.lines().slice(-3)).toEqual(["first", "unfinished", CANCELLED]);
});

test("so is what a ready command wrote last", async () => {
  const build = request("ready");
  await build.start(plan({ readyCommand: TWO_LINES }));
  await expect.poll(build.lines).toContain("first");
  await request("ready").start(plan({}));
  await expect.poll(() => build.status().build.status).toBe("error");
  expect(build.lines().slice(-3)).toEqual(["first", "unfinished", CANCELLED]);
});

test("a build that an instance left has its last line before its state", () => {
  const left: TemplateBuildRecord = {
    buildId: "b",
    templateId: "t",
    team: "local",
    owner: "o",
    status: "building",
    tags: [],
    createdAtMs: 1,
    updatedAtMs: 1,
    finishedAtMs: null,
    reason: null,
  };
  const order: unknown[] = [];
  failUnfinished(
    {
      templateBuilds: {
        get: none,
        remove: none,
        ofTemplate: none,
        open: none,
        ids: none,
        unfinishedOfOwner: () => [left],
        put: ({ status }) => void order.push(status),
      },
      buildLines: {
        read: none,
        buildIds: none,
        remove: none,
        append: (_buildId, lines) => void order.push(...lines.map(({ message }) => message)),
      },
    },
    "o",
    2,
  );
  expect(order).toEqual(["the service ended while the template was being built", "error"]);
});
