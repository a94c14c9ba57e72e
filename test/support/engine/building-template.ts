/** A built-in template whose build is under way for as long as a test lasts. */

import { SandboxError } from "../../../src/common/errors.ts";
import type { BuiltInTemplate } from "../../../src/sandboxes/templates/built-ins.ts";
import { templateBuilding } from "../../../src/wire/messages.ts";

export const BUILDING: BuiltInTemplate = {
  name: "base",
  defaultUser: "user",
  defaultWorkdir: "/home/user",
  find: async () => undefined,
  async prepare() {
    throw new SandboxError("unavailable", templateBuilding("base", "about 30 s left"));
  },
};
