/** Builds that are cancelled, removed, started twice or cut by the end of the service, in any order. */

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { BuildPlan } from "../../src/sandboxes/template-builds/build-request.ts";
import type { BuiltInTemplate } from "../../src/sandboxes/templates/built-ins.ts";
import { eraseTemplate } from "../../src/sandboxes/templates/templates.ts";
import { openStore } from "../../src/store/sqlite.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const PLAN: BuildPlan = {
  from: { kind: "template", reference: "base" },
  force: false,
  steps: [{ type: "ENV", args: ["A", "1"], force: false }],
  startCommand: undefined,
  readyCommand: undefined,
};
const ENDED = "the service ended while the template was being built";
const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

/** A base that is not there until it is released; a build that has its turn asks for it. */
function createHeldBase() {
  const released = Promise.withResolvers<void>();
  let asked = 0;
  let left = 0;
  const template: BuiltInTemplate = {
    name: "base",
    defaultUser: "user",
    defaultWorkdir: "/home/user",
    find: async () => undefined,
    async prepare(signal) {
      asked += 1;
      const aborted = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => aborted.reject(signal.reason), { once: true });
      try {
        await Promise.race([released.promise, aborted.promise]);
      } finally {
        left += 1;
      }
      return [];
    },
  };
  return { template, asked: () => asked, left: () => left, release: () => released.resolve() };
}

async function startHeld(home?: string) {
  const base = createHeldBase();
  const service = await startTestService({
    builtIns: [base.template],
    ...(home !== undefined && { home }),
  });
  return { ...service, base };
}

function request({ embedded }: TestService, name: string) {
  const wanted = { name, tags: [], cpus: undefined, memoryMb: undefined };
  const { template, build } = embedded.sandboxes.builds.request(wanted);
  return { templateId: template.templateId, buildId: build.buildId };
}

type Asked = ReturnType<typeof request>;

async function start({ embedded }: TestService, { templateId, buildId }: Asked): Promise<void> {
  await embedded.sandboxes.builds.start(templateId, buildId, PLAN);
}

function stateOf({ embedded }: TestService, { templateId, buildId }: Asked) {
  const { build } = embedded.sandboxes.builds.status(templateId, buildId, FILTER);
  return { status: build.status, reason: build.reason };
}

function linesOf({ embedded }: TestService, { templateId, buildId }: Asked): string[] {
  const lines = embedded.sandboxes.builds.lines(templateId, buildId, FILTER);
  return lines.map(({ message }) => message);
}

/** Takes all turns with builds that wait for the base. */
async function takeTurns(service: Awaited<ReturnType<typeof startHeld>>): Promise<Asked[]> {
  const builds = Array.from({ length: availableParallelism() }, (_, index) =>
    request(service, `turn-${index}`),
  );
  for (const build of builds) await start(service, build);
  await expect.poll(() => service.base.asked()).toBe(builds.length);
  return builds;
}

test("a build that is cancelled while it waits for its turn does no work", async () => {
  await using service = await startHeld();
  const turns = await takeTurns(service);
  const first = request(service, "mine");
  await start(service, first);
  const second = request(service, "mine");
  await start(service, second);
  await expect.poll(() => stateOf(service, first).status).toBe("error");
  const reason = `cancelled: build ${second.buildId} of the same template was started`;
  expect(stateOf(service, first).reason).toEqual({ message: reason, step: "base" });
  expect(linesOf(service, first)).toEqual(["waiting for another build to end", reason]);
  expect(service.base.asked()).toBe(turns.length);
  service.base.release();
  await expect.poll(() => stateOf(service, second).status).toBe("ready");
  for (const build of turns) {
    await expect.poll(() => stateOf(service, build).status).toBe("ready");
  }
  expect(service.base.asked()).toBe(turns.length + 1);
});

test("a build cancels no other of its template that has other tags", async () => {
  await using service = await startHeld();
  const builds = ["tagged:one", "tagged:two"].map((name) => request(service, name));
  for (const build of builds) await start(service, build);
  service.base.release();
  for (const build of builds) {
    await expect.poll(() => stateOf(service, build)).toMatchObject({ status: "ready" });
  }
  const tags = service.embedded.sandboxes.templates.tags("tagged");
  const [one, two] = builds;
  expect(Object.fromEntries(tags.map(({ tag, buildId }) => [tag, buildId]))).toEqual({
    one: one?.buildId,
    two: two?.buildId,
  });
});

test("the removal of a template by another process ends its build", async () => {
  await using service = await startHeld();
  const build = request(service, "gone");
  await start(service, build);
  await expect.poll(() => service.base.asked()).toBe(1);
  using other = openStore({ path: join(service.home, "state.db") });
  eraseTemplate(other, build.templateId);
  await expect.poll(() => service.base.left(), { timeout: 10_000 }).toBe(1);
});

test("the removal of a template ends its builds, one that waits for its turn too", async () => {
  await using service = await startHeld();
  const turns = await takeTurns(service);
  const waiting = request(service, "waiting");
  await start(service, waiting);
  for (const { templateId } of [waiting, ...turns.slice(0, 1)]) {
    expect(
      (await service.call({ method: "DELETE", path: `/templates/${templateId}` })).status,
    ).toBe(204);
  }
  const again = request(service, "waiting");
  expect(again.templateId).not.toBe(waiting.templateId);
  await start(service, again);
  // The turn of the removed one is free.
  await expect.poll(() => service.base.asked()).toBe(turns.length + 1);
  service.base.release();
  await expect.poll(() => stateOf(service, again).status).toBe("ready");
  expect(() => stateOf(service, waiting)).toThrow("not found");
  const path = `/templates/${again.templateId}/builds/${waiting.buildId}/status`;
  expect((await service.call({ path })).status).toBe(404);
});

test("of two starts of one build at once one is refused", async () => {
  await using service = await startHeld();
  service.base.release();
  const build = request(service, "twice");
  const outcomes = await Promise.allSettled([start(service, build), start(service, build)]);
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  await expect.poll(() => stateOf(service, build).status).toBe("ready");
});

test("a start whose template is replaced by one of the same name meanwhile is refused", async () => {
  await using service = await startHeld();
  service.base.release();
  const { sandboxes } = service.embedded;
  const old = request(service, "name");
  const starting = sandboxes.builds.start("name", old.buildId, PLAN);
  const removing = sandboxes.templates.remove("name");
  const next = request(service, "name");
  await expect(starting).rejects.toMatchObject({ code: "not_found" });
  await removing;
  expect(next.templateId).not.toBe(old.templateId);
  await start(service, next);
  await expect.poll(() => stateOf(service, next).status).toBe("ready");
  expect(() => stateOf(service, { ...next, buildId: old.buildId })).toThrow("not found");
});

test("builds that run and wait say that the service ended, to the next one too", async () => {
  await using folder = await makeTempFolder();
  let builds: Asked[] = [];
  {
    await using service = await startHeld(folder.path);
    builds = await takeTurns(service);
    const waiting = request(service, "waiting");
    await start(service, waiting);
    builds.push(waiting);
  }
  await using service = await startHeld(folder.path);
  for (const build of builds) {
    expect(stateOf(service, build)).toMatchObject({ status: "error", reason: { message: ENDED } });
  }
  expect(service.base.asked()).toBe(0);
});
