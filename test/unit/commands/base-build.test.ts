/** A build of a template that failed is tried again by the first caller after half a minute. */

import { expect, test } from "vitest";
import { createBaseBuild } from "../../../src/commands/templates/base-build.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const RETRY_MS = 30_000;
const say = () => undefined;

test("half a minute after a failure it is built anew, whatever the wall clock shows", async () => {
  const clock = createFakeClock();
  let attempts = 0;
  const target = {
    name: "base",
    expectMs: async () => undefined,
    async build() {
      attempts += 1;
      throw new SandboxError("unavailable", "no mirror answers");
    },
    find: async () => undefined,
    isCurrent: async () => false,
    hasLostModes: async () => false,
    findStart: async () => undefined,
  };
  const log = createSilentLog();
  await using base = createBaseBuild({ target, home: "/h", log, isAllowed: true, clock, say });
  const wait = () => base.wait(new AbortController().signal);
  const FAILURE = { message: "the base template could not be built: no mirror answers" };
  await expect(wait()).rejects.toMatchObject(FAILURE);
  await expect(wait()).rejects.toMatchObject(FAILURE);
  expect(attempts).toBe(1);
  clock.set(clock.now() - 3_600_000);
  await clock.advance(RETRY_MS);
  await expect(wait()).rejects.toMatchObject(FAILURE);
  expect(attempts).toBe(2);
});
