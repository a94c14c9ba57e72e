/** Which coding a download gets. */

import { expect, test } from "vitest";
import { selectCoding } from "../../../src/envd/files/accept-encoding.ts";

test.for([
  [undefined, "identity", false],
  ["", "identity", false],
  ["gzip", "gzip", false],
  ["GZIP, deflate", "gzip", false],
  ["br, deflate", "identity", false],
  ["*", "identity", false],
  ["identity, gzip", "identity", false],
  ["identity;q=0.5, gzip;q=0.9", "gzip", false],
  ["gzip;q=0", "identity", false],
  ["identity;q=0", undefined, true],
  ["identity;q=0, *", "gzip", true],
  ["gzip; q=1,*; q=0", "gzip", true],
  ["*;q=0", undefined, true],
  ["*;q=0, identity;q=0.1", "identity", false],
  ["br;q=1, *;q=0.5", "identity", false],
] as const)("%j selects %s", ([header, coding, isIdentityRefused]) => {
  expect(selectCoding(header)).toEqual({ coding, isIdentityRefused });
});
