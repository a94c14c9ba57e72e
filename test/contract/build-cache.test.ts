/** What a build takes from the cache: the steps of builds, and nothing that a sandbox made. */

import { userInfo } from "node:os";
import { expect, onTestFinished, test, vi } from "vitest";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const LIMIT_MS = 30_000;
const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

/** Starts a new build of the same template; returns what tells its state. */
async function start({ embedded }: TestService) {
  const { builds } = embedded.sandboxes;
  const wanted = { name: "server", tags: [], cpus: undefined, memoryMb: undefined };
  const { template, build: made } = builds.request(wanted);
  await builds.start(template.templateId, made.buildId, {
    from: { kind: "template", reference: "base" },
    force: false,
    steps: [{ type: "ENV", args: ["A", "1"], force: false }],
    startCommand: undefined,
    readyCommand: undefined,
  });
  const state = () => builds.status(template.templateId, made.buildId, FILTER).build.status;
  return { state, buildId: made.buildId };
}

/** The layers of a new build of the same template. */
async function build(service: TestService) {
  const { state, buildId } = await start(service);
  await expect.poll(state, { timeout: LIMIT_MS }).toBe("ready");
  return service.embedded.store.builds.get(buildId)?.layers;
}

test("a snapshot or a fork of a template's sandbox is not taken for the template", async () => {
  await using folder = await makeTempFolder();
  const base = {
    name: "base",
    defaultUser: userInfo().username,
    defaultWorkdir: folder.path,
    find: async () => [],
  };
  await using service = await startTestService({ builtIns: [base], engine: createLayerEngine() });
  const before = await build(service);
  const { sandboxID } = await service.create({ templateID: "server" });
  const post = async (route: string, body: object) =>
    service.call({ method: "POST", path: `/sandboxes/${sandboxID}/${route}`, body });
  expect((await post("snapshots", { name: "changed" })).status).toBe(201);
  expect((await post("fork", { count: 1 })).status).toBe(201);
  expect(await build(service)).toEqual(before);
});

test("a build whose steps are all cached is ready when its start is answered", async () => {
  await using service = await startTestService({ engine: createLayerEngine() });
  await build(service);
  // The wait for a short build has no end by time.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  expect((await start(service)).state()).toBe("ready");
});
