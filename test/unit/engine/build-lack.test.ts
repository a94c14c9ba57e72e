/** What a machine lacks to build base, and what helps: no package does where there is no Debian release. */

import { expect, test } from "vitest";
import { findBuildLack } from "../../../src/engine/templates/base.ts";

const DEBIAN = "ID=debian\nVERSION_CODENAME=bookworm\n";
const FEDORA = 'ID=fedora\nVERSION_CODENAME=""\n';

test.for([
  { machine: "Debian with", system: DEBIAN, path: "/usr/bin/mmdebstrap", detail: undefined },
  {
    machine: "Debian without",
    system: DEBIAN,
    path: undefined,
    detail: "mmdebstrap is missing",
  },
  {
    machine: "Fedora without",
    system: FEDORA,
    path: undefined,
    detail: "this system names no Debian release",
  },
])("$machine the builder", ({ system, path, detail }) => {
  expect(findBuildLack(system, () => path)?.detail).toBe(detail);
});

test("no package is named that would not help", () => {
  expect(findBuildLack(FEDORA)?.hint).not.toContain("install");
});
