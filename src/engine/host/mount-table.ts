/** The mount table of this process, read and parsed. */

import { readFile } from "node:fs/promises";

export interface MountEntry {
  /** The part of the file system that is mounted, `/` for all of it. */
  readonly root: string;
  readonly target: string;
  readonly type: string;
  readonly source: string;
  /** The options of the file system itself, as for cgroup controllers. */
  readonly options: readonly string[];
}

/** Every mount that this process sees, in the order of mounting. */
export async function readMounts(): Promise<readonly MountEntry[]> {
  return parseMounts(await readFile("/proc/self/mountinfo", "utf8"));
}

/** @see proc_pid_mountinfo(5) for the fields and for the octal escapes. */
export function parseMounts(text: string): readonly MountEntry[] {
  return text.split("\n").flatMap((line) => {
    const [before = "", after = ""] = line.split(" - ", 2);
    const [, , , root, target] = before.split(" ");
    const [type, source, options] = after.split(" ");
    if (root === undefined || target === undefined || type === undefined) return [];
    return [
      {
        root: unescapeField(root),
        target: unescapeField(target),
        type,
        source: unescapeField(source ?? ""),
        options: (options ?? "").split(","),
      },
    ];
  });
}

function unescapeField(field: string): string {
  return field.replaceAll(/\\([0-7]{3})/g, (_match, octal: string) =>
    String.fromCodePoint(Number.parseInt(octal, 8)),
  );
}
