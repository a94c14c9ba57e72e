/** The log of this machine's kernel. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";

const MAX_BYTES = 1 << 24;

export async function kernelLog(): Promise<string> {
  return (await promisify(execFile)("dmesg", [], { maxBuffer: MAX_BYTES })).stdout;
}
