/** A container that was halted and has no process any more: its record, and what else it is opened with. */

import type { ContainerRecord } from "../../../src/engine/oci/container-record.ts";

export const HALTED: ContainerRecord = {
  id: "i0",
  pid: 1,
  startTicks: "0",
  idBase: 100_000,
  isHalted: true,
  level: "userns-container",
  daemon: "",
};

/** Without a network, and without programs of its own. */
export const BARE_PARTS = {
  boot: async () => HALTED,
  outside: undefined,
  perlDirectory: "/nonexistent",
  memory: "none",
  routers: {
    outlivesProcess: false,
    hasLost: async () => true,
    async setEgress() {},
    async disconnect() {},
  },
  hasDeadlines: false,
} as const;
