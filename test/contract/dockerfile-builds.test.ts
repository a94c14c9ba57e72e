/** Builds whose steps are those of a Dockerfile: the user and the work directory that they find and leave. */

import { expect, test } from "vitest";
import { startTestService } from "../support/service.ts";

const LIMIT_MS = 30_000;
const FILTER = { level: "debug", limit: 100, offset: 0, direction: "forward" } as const;

type Service = Awaited<ReturnType<typeof startTestService>>;

/** What is left by a build of steps that need no sandbox. */
async function build(service: Service, name: string, body: object) {
  const { sandboxes, store } = service.embedded;
  const wanted = { name, tags: [], cpus: undefined, memoryMb: undefined };
  const { template, build: requested } = sandboxes.builds.request(wanted);
  const { templateId } = template;
  const { buildId } = requested;
  const path = `/v2/templates/${templateId}/builds/${buildId}`;
  expect((await service.call({ method: "POST", path, body })).status).toBe(202);
  const state = () => sandboxes.builds.status(templateId, buildId, FILTER).build.status;
  await expect.poll(state, { timeout: LIMIT_MS }).toBe("ready");
  return store.builds.tagged(templateId, "default");
}

const startService = (base: { defaultUser: string; defaultWorkdir: string }) =>
  startTestService({ builtIns: [{ name: "base", ...base, find: async () => [] }] });

const PLAIN = { defaultUser: "user", defaultWorkdir: "/home/user" };
const OWN = { defaultUser: "app", defaultWorkdir: "/srv" };

test.for([
  [PLAIN, {}, ["/home/user", "user", "/home/user"]],
  [PLAIN, { fromDockerfile: true }, ["/root", "user", "/home/user"]],
  [OWN, { fromDockerfile: true }, ["/home/app", "app", "/srv"]],
] as const)("upon %j a build with %j has %j", async ([base, plan, expected]) => {
  await using service = await startService(base);
  // The variable HOME tells of the user.
  const steps = [{ type: "ENV", args: ["PLACE", "$HOME"] }];
  const made = await build(service, "made", { fromTemplate: "base", steps, ...plan });
  const { defaultUser, defaultWorkdir, setup } = made ?? {};
  expect([setup?.environment["PLACE"], defaultUser, defaultWorkdir]).toEqual(expected);
});

const set = (type: string, ...args: string[]) => ({ type, args });

test("an ARG is for the steps where the base has a variable of its name, and does not replace it", async () => {
  await using service = await startService(PLAIN);
  await build(service, "below", {
    fromTemplate: "base",
    steps: [set("ENV", "A", "base", "B", "base", "E", "")],
  });
  const made = await build(service, "made", {
    fromTemplate: "below",
    fromDockerfile: true,
    steps: [
      set("ARG", "A", "arg", "B", "arg", "C", "arg", "E", "arg"),
      set("ENV", "SEEN", "$A$B$C$E", "B", "file"),
    ],
  });
  expect(made?.setup?.environment).toEqual({
    A: "base",
    B: "file",
    C: "arg",
    E: "",
    SEEN: "argargargarg",
  });
});
