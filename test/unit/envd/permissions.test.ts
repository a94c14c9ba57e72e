/** Modes as text. */

import { expect, test } from "vitest";
import { permissionBits, permissionsText } from "../../../src/envd/permissions.ts";

test.for([
  [0o100644, "-rw-r--r--"],
  [0o100000, "----------"],
  [0o040755, "drwxr-xr-x"],
  [0o041777, "dtrwxrwxrwx"],
  [0o120777, "Lrwxrwxrwx"],
  [0o104755, "urwxr-xr-x"],
  [0o102755, "grwxr-xr-x"],
  [0o106755, "ugrwxr-xr-x"],
  [0o140755, "Srwxr-xr-x"],
  [0o010644, "prw-r--r--"],
  [0o060660, "Drw-rw----"],
  [0o020620, "Dcrw--w----"],
] as const)("mode %o reads %s", ([mode, text]) => {
  expect(permissionsText(mode)).toBe(text);
});

test("bits are the nine permissions alone", () => {
  expect(permissionBits(0o107751)).toBe(0o751);
});
