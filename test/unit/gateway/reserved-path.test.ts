/** Paths of the daemon that only the host may call, in every spelling. */

import { expect, test } from "vitest";
import { findReservedPath } from "../../../src/gateway/authorize.ts";

test.for([
  { target: "/init", expected: "/init" },
  { target: "/init/", expected: "/init" },
  { target: "//init", expected: "/init" },
  { target: "/init?x=1", expected: "/init" },
  { target: "/files/../init", expected: "/init" },
  { target: "/./init//", expected: "/init" },
  { target: "/%69nit", expected: "/init" },
  { target: "/files%2F..%2Finit", expected: "/init" },
  { target: "/upgrade", expected: "/upgrade" },
  { target: "/freeze", expected: "/freeze" },
  { target: "/initial", expected: undefined },
  { target: "/files/init", expected: undefined },
  { target: "/health", expected: undefined },
  { target: "/%zz", expected: undefined },
])("$target", ({ target, expected }) => {
  expect(findReservedPath(target)).toBe(expected);
});
