/** The settings of disks: those of sandboxes and volumes, and of the file that they may lie in. */

import { integer, type Setting } from "./setting-values.ts";

const DISK_MB = { min: 64, max: 16_777_216 };
/** With less, its reserve is a large part of it. */
const STORE_GB = { min: 8, max: 1_048_576 };

export const STORAGE_SETTINGS = {
  diskMb: {
    flag: "disk-mb",
    environment: "SANDBOX_MCP_DISK_MB",
    schema: integer(DISK_MB.min, DISK_MB.max),
    help: "writable disk of each sandbox in MiB",
  },
  volumeMb: {
    flag: "volume-mb",
    environment: "SANDBOX_MCP_VOLUME_MB",
    schema: integer(DISK_MB.min, DISK_MB.max),
    help: "disk of each new volume in MiB",
  },
  storeGb: {
    flag: "store-gb",
    environment: "SANDBOX_MCP_STORE_GB",
    schema: integer(STORE_GB.min, STORE_GB.max),
    help: "keep disks in a file of so many GiB that shares blocks, for homes that cannot",
  },
} as const satisfies Record<string, Setting>;
