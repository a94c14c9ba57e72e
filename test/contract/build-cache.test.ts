/** What a build takes from the cache: the steps of builds, and nothing that a sandbox made. */

import { userInfo } from "node:os";
import { expect, test } from "vitest";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const LIMIT_MS = 30_000;
const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

/** The layers of a new build of the same template. */
async function build({ embedded }: TestService) {
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
  await expect.poll(state, { timeout: LIMIT_MS }).toBe("ready");
  return embedded.store.builds.get(made.buildId)?.layers;
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
