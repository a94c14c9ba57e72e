/** The record of a container that was halted and has no process any more. */

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
