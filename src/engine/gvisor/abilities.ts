/**
 * What a kernel of its own lets programs do, as the first program of a trial found out inside:
 * versions of gVisor's runtime differ, and their names and numbers prove nothing.
 */

import { randomUUID } from "node:crypto";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { commandIn, DAEMON_DIRECTORY } from "../daemon/daemon-command.ts";
import { DISK_NAMES, STACKS } from "../storage/disk.ts";

/** Below the root inside. */
const FILE = "abilities";
const SET_ID_PROGRAM = "/set-id";
const MAX_FILE_BYTES = 1_024;
const NEWER = "install a newer runsc: https://gvisor.dev/docs/user_guide/install/";

/** What doctor says for each that is missing, and what a test looks for. */
export const MISSING = {
  setId: "sudo gives no rights, because set-id bits have no effect",
  environment: "every user inside can read the environment of root's programs",
  bootId: "the boot id is the kernel's own",
  attributes: "files keep no attributes (user.*), so uploads lose their metadata",
} as const;

/** Said too, but no version does better: those of 2026 give the first program no right to mount. */
export const UNBOUNDED = "programs that read /proc take up to 160 MB of the sandbox's memory";

export interface AbilityTrial {
  /** The boot id that programs are to see. */
  readonly bootId: string;
}

export interface Finding {
  readonly detail: string;
  /** How to get what is missing; undefined when nothing is. */
  readonly remedy: string | undefined;
}

export function createTrial(): AbilityTrial {
  return { bootId: randomUUID() };
}

/** What stands before a command of PID 1 in a trial. */
export function trialWords(): string[] {
  const program = join(DAEMON_DIRECTORY, "abilities.pl");
  return [
    ...commandIn(DAEMON_DIRECTORY, "perl"),
    program,
    process.arch,
    `/${FILE}`,
    SET_ID_PROGRAM,
  ];
}

/** What a trial's container, whose daemon answers, has found. */
export async function readFinding(directory: string, { bootId }: AbilityTrial): Promise<Finding> {
  const path = join(directory, DISK_NAMES.mount, STACKS.root.upper, FILE);
  await using file = await open(path, "r");
  const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_FILE_BYTES));
  return describeAbilities(buffer.toString("latin1", 0, bytesRead), bootId);
}

/** What the lines of the file say; a line that is not there says that the ability is missing. */
export function describeAbilities(text: string, bootId: string): Finding {
  const lines = text.split("\n");
  const kernel = lines.find((line) => line.startsWith("kernel "))?.slice("kernel ".length);
  const missing = [
    ...(lines.includes("set-id effective") ? [] : [MISSING.setId]),
    ...(lines.includes("environment closed") ? [] : [MISSING.environment]),
    ...(lines.includes(`boot-id ${bootId}`) ? [] : [MISSING.bootId]),
    ...(lines.includes("attributes kept") ? [] : [MISSING.attributes]),
  ];
  const noted = lines.includes("proc bounded") ? missing : [...missing, UNBOUNDED];
  const detail = [`kernel ${quoteUntrusted(kernel ?? "unknown")} inside`, ...noted].join("; ");
  return { detail, remedy: missing.length === 0 ? undefined : NEWER };
}
