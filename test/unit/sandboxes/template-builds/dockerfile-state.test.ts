/** Which user and work directory a build from a Dockerfile begins and ends with. */

import { expect, test } from "vitest";
import {
  beginDockerfile,
  endDockerfile,
} from "../../../../src/sandboxes/template-builds/dockerfile-state.ts";

const environment = { A: "1" };
const PLAIN = { defaultUser: "user", defaultWorkdir: "/home/user" };
const OWN = { defaultUser: "app", defaultWorkdir: "/srv" };

test.for([
  ["a template that names none", { build: PLAIN }, "root", "/"],
  ["a template that names both", { build: OWN }, "app", "/srv"],
  [
    "an image that names none",
    { build: PLAIN, named: { user: undefined, workdir: undefined } },
    "root",
    "/",
  ],
  [
    "an image that names a user, whose home is the default",
    { build: { ...OWN, defaultWorkdir: "/home/app" }, named: { user: "app", workdir: undefined } },
    "app",
    "/",
  ],
  [
    "an image that names what every template has",
    { build: PLAIN, named: { user: "user", workdir: "/home/user" } },
    "user",
    "/home/user",
  ],
] as const)("steps upon %s", ([_of, base, user, workdir]) => {
  const state = { user: "x", workdir: "/x", environment };
  expect(beginDockerfile(state, base)).toEqual({ user, workdir, environment });
});

test.for([
  [[], "app", "/srv"],
  [["USER"], "x", "/srv"],
  [["WORKDIR", "RUN"], "app", "/x"],
  [["USER", "WORKDIR"], "x", "/x"],
] as const)("a file with %j ends as %s in %s", ([types, user, workdir]) => {
  const state = { user: "x", workdir: "/x", environment };
  const steps = types.map((type) => ({ type, args: [] }));
  expect(endDockerfile(state, OWN, steps)).toEqual({ user, workdir, environment });
});
