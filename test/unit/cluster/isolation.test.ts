/** The level that the daemon's report of its kernel means. */

import { expect, test } from "vitest";
import { requireStrength, toLevel } from "../../../src/cluster/pods/isolation.ts";

test.for([
  { idMap: "         0 3344367616      65536\n", seccomp: 2, level: "userns-container" },
  { idMap: "         0          0 4294967295\n", seccomp: 2, level: "container" },
  { idMap: "         0 3344367616      65536\n", seccomp: 0, level: "none" },
  { idMap: "         0 3344367616      65536\n", seccomp: null, level: "none" },
  { idMap: "", seccomp: 2, level: "none" },
])("$idMap with filter $seccomp → $level", ({ idMap, seccomp, level }) => {
  expect(toLevel({ idMap, seccomp })).toBe(level);
});

test("a level weaker than required is refused", () => {
  expect(() => requireStrength("container", "userns-container")).toThrow(/isolated as container/);
  expect(() => requireStrength("userns-container", "container")).not.toThrow();
});
