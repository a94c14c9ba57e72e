/** Ranges and conditions of downloads. */

import { expect, test } from "vitest";
import { decideDelivery, type ConditionHeaders } from "../../../src/envd/files/conditions.ts";

const FILE = { size: 10, modifiedMs: Date.parse("2026-01-02T03:04:05.678Z") };
const SAME = "Fri, 02 Jan 2026 03:04:05 GMT";
const EARLIER = "Fri, 02 Jan 2026 03:04:04 GMT";
const NONE: ConditionHeaders = {
  ifMatch: undefined,
  ifUnmodifiedSince: undefined,
  ifNoneMatch: undefined,
  ifModifiedSince: undefined,
  ifRange: undefined,
  range: undefined,
};

test.for([
  ["bytes=0-3", { kind: "part", start: 0, end: 3 }],
  ["bytes=4-", { kind: "part", start: 4, end: 9 }],
  ["bytes=-3", { kind: "part", start: 7, end: 9 }],
  ["bytes=-99", { kind: "part", start: 0, end: 9 }],
  ["bytes=8-99", { kind: "part", start: 8, end: 9 }],
  ["bytes=8-18446744073709551615", { kind: "part", start: 8, end: 9 }],
  ["bytes=-18446744073709551615", { kind: "part", start: 0, end: 9 }],
  ["bytes=18446744073709551615-", { kind: "none", status: 416 }],
  [
    "bytes=0-1, 4-5,,-1",
    {
      kind: "parts",
      parts: [
        { start: 0, end: 1 },
        { start: 4, end: 5 },
        { start: 9, end: 9 },
      ],
    },
  ],
  ["bytes=0-1,10-", { kind: "part", start: 0, end: 1 }],
  ["bytes=0-6,5-", { kind: "whole" }],
  ["bytes=0-1,x", { kind: "none", status: 416 }],
  ["bytes=10-,20-30", { kind: "none", status: 416 }],
  ["bytes=", { kind: "none", status: 416 }],
  ["bytes=10-", { kind: "none", status: 416 }],
  ["bytes=-0", { kind: "none", status: 416 }],
  ["bytes=5-4", { kind: "none", status: 416 }],
  ["bytes=-", { kind: "none", status: 416 }],
  ["bytes=a-b", { kind: "none", status: 416 }],
  ["lines=0-1", { kind: "none", status: 416 }],
] as const)("range %s of ten bytes", ([range, delivery]) => {
  expect(decideDelivery({ ...NONE, range }, FILE)).toEqual(delivery);
});

test.for([
  [{ ifModifiedSince: SAME }, { kind: "none", status: 304 }],
  [{ ifModifiedSince: EARLIER }, { kind: "whole" }],
  [{ ifModifiedSince: "yesterday" }, { kind: "whole" }],
  [{ ifModifiedSince: "2100" }, { kind: "whole" }],
  [{ ifModifiedSince: "2100-01-01T00:00:00Z" }, { kind: "whole" }],
  [{ ifModifiedSince: "Friday, 02-Jan-26 03:04:05 GMT" }, { kind: "none", status: 304 }],
  [{ ifModifiedSince: "Fri Jan  2 03:04:05 2026" }, { kind: "none", status: 304 }],
  [{ ifUnmodifiedSince: "version 1" }, { kind: "whole" }],
  [{ ifNoneMatch: "*" }, { kind: "none", status: 304 }],
  [{ ifNoneMatch: '"x"', ifModifiedSince: SAME }, { kind: "whole" }],
  [{ ifMatch: "*" }, { kind: "whole" }],
  [{ ifMatch: '"x"' }, { kind: "none", status: 412 }],
  [{ ifUnmodifiedSince: SAME }, { kind: "whole" }],
  [{ ifUnmodifiedSince: EARLIER }, { kind: "none", status: 412 }],
  [
    { range: "bytes=0-0", ifRange: SAME },
    { kind: "part", start: 0, end: 0 },
  ],
  [{ range: "bytes=0-0", ifRange: EARLIER }, { kind: "whole" }],
  [{ range: "bytes=0-0", ifRange: '"x"' }, { kind: "whole" }],
] as const)("condition %j", ([headers, delivery]) => {
  expect(decideDelivery({ ...NONE, ...headers }, FILE)).toEqual(delivery);
});

test("any range of an empty file is the whole of it", () => {
  expect(decideDelivery({ ...NONE, range: "bytes=0-5" }, { ...FILE, size: 0 })).toEqual({
    kind: "whole",
  });
});
