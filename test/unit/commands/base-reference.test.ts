/** Whether FROM of a Dockerfile is a template or an image. */

import { expect, test } from "vitest";
import { toBase } from "../../../src/commands/template-build/base-reference.ts";

const LISTED = [{ templateID: "abc123", names: ["team/own"], aliases: ["own"] }];

test.for(["own", "own:v1", "team/own", "abc123"])("%s is a template that is listed", (base) => {
  expect(toBase(base, LISTED)).toEqual({ fromTemplate: base });
});

test.for(["base", "base:default", "host", "code-interpreter"])(
  "%s is a built-in template before it was built",
  (base) => {
    expect(toBase(base, [])).toEqual({ fromTemplate: base });
  },
);

test.for(["debian:12", "registry.test:5000/own", "library/base", "python", "owner"])(
  "%s is an image",
  (base) => {
    expect(toBase(base, LISTED)).toEqual({ fromImage: base });
  },
);
