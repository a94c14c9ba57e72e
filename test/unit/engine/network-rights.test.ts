/** Whether a process may change networks, and what is told where it may not. */

import { expect, test } from "vitest";
import type { Logger } from "../../../src/common/log.ts";
import { createRightsCheck } from "../../../src/engine/network/network-rights.ts";

test.for([
  { name: "all rights", status: "CapEff:\t000001ffffffffff\n", may: true, lines: 0 },
  { name: "no CAP_NET_ADMIN", status: "CapEff:\t000001fffeffefff\n", may: false, lines: 1 },
  { name: "no CAP_SYS_ADMIN", status: "CapEff:\t000001ffffdfffff\n", may: false, lines: 1 },
  { name: "unknown rights", status: undefined, may: true, lines: 0 },
])("$name", ({ status, may, lines }) => {
  const told: unknown[] = [];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it logs with
  const log = { warn: (...words: unknown[]) => void told.push(words) } as unknown as Logger;
  const mayChange = createRightsCheck(log, () => status);
  expect([mayChange(), mayChange(), told.length]).toEqual([may, may, lines]);
});
