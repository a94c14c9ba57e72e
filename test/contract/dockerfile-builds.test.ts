/** Builds whose steps are those of a Dockerfile: the user and the work directory that they find and leave. */

import { expect, test } from "vitest";
import { startTestService } from "../support/service.ts";

const LIMIT_MS = 30_000;
const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

/** A step that needs no sandbox tells of the user by the variable HOME. */
async function build(base: { defaultUser: string; defaultWorkdir: string }, plan: object) {
  const builtIns = [{ name: "base", ...base, find: async () => [] }];
  await using service = await startTestService({ builtIns });
  const { sandboxes, store } = service.embedded;
  const wanted = { name: "made", tags: [], cpus: undefined, memoryMb: undefined };
  const { template, build: requested } = sandboxes.builds.request(wanted);
  const { templateId } = template;
  const { buildId } = requested;
  const steps = [{ type: "ENV", args: ["PLACE", "$HOME"] }];
  const path = `/v2/templates/${templateId}/builds/${buildId}`;
  const body = { fromTemplate: "base", steps, ...plan };
  expect((await service.call({ method: "POST", path, body })).status).toBe(202);
  const state = () => sandboxes.builds.status(templateId, buildId, FILTER).build.status;
  await expect.poll(state, { timeout: LIMIT_MS }).toBe("ready");
  const made = store.builds.tagged(templateId, "default");
  return [made?.setup?.environment["PLACE"], made?.defaultUser, made?.defaultWorkdir];
}

const PLAIN = { defaultUser: "user", defaultWorkdir: "/home/user" };
const OWN = { defaultUser: "app", defaultWorkdir: "/srv" };

test.for([
  [PLAIN, {}, ["/home/user", "user", "/home/user"]],
  [PLAIN, { fromDockerfile: true }, ["/root", "user", "/home/user"]],
  [OWN, { fromDockerfile: true }, ["/home/app", "app", "/srv"]],
] as const)("upon %j a build with %j has %j", async ([base, plan, expected]) => {
  expect(await build(base, plan)).toEqual(expected);
});
