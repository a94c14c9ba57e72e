/**
 * The system calls that Node lacks, by one small perl program, `launcher.pl`. It takes a list of steps, does them
 * in order and ends with `exec`, so that what it prepared (sockets, mounts, a cgroup) is inherited;
 * or with `exit`, where the steps were all.
 * It is killed when this process dies.
 */

import assert from "node:assert";
import { perlCommand } from "./perl-program.ts";

/** One step; the first word names it, the others are its arguments. */
export type LauncherStep =
  /** Makes a folder the current one; every relative path after it starts there. */
  | readonly ["chdir", path: string]
  /** Binds and listens on a unix socket, mode 0600; the first becomes descriptor 3, the next 4. */
  | readonly ["listen", name: string]
  /** A mount namespace of its own: no mount made after it is seen by the host. */
  | readonly ["isolate"]
  /**
   * A user namespace, in which `from` is the outside's `to`, and so on; `idmap` steps after it show
   * files with these ids. What the kernel counts for each user it counts for `to`, not for root.
   */
  | readonly ["ids", from: string, to: string, count: string]
  /** Mounts the user namespace of the last `ids` step at a new file, which keeps it. */
  | readonly ["hold", path: string]
  /** Mounts a read-only clone of a tree at a folder with the ids of the last `ids` step. */
  | readonly ["idmap", source: string, target: string]
  /**
   * Mounts a writable clone of a tree at a path below a root, without following any link: each
   * component is opened by itself, and made for the owner where it is missing. `mapped` shows files
   * with the ids of the last `ids` step, `plain` as they are. Programs of it run without set-id bits.
   */
  | readonly [
      "volume",
      source: string,
      root: string,
      path: string,
      owner: string,
      ids: "mapped" | "plain",
    ]
  /** Hides a folder behind device nodes of its own: `null`, `zero` and the like, each a new inode. */
  | readonly ["devices", target: string]
  /**
   * Mounts a writable clone of a disk whose files have ids from `from` on, at a folder with those from
   * `to` on; root's own stay as they are.
   */
  | readonly ["remap", source: string, target: string, from: string, to: string]
  /** Mounts a read-only clone of a tree at a folder as it is. */
  | readonly ["clone", source: string, target: string]
  /** Mounts a folder at another one, writable. */
  | readonly ["bind", source: string, target: string]
  | readonly ["mkdir", path: string]
  /** Mounts a file system in which device nodes do not open. */
  | readonly ["mount", type: string, target: string, data: string]
  /**
   * Mounts an ext4 image by a loop device that is freed with its last mount. Programs of it do not
   * run, device nodes do not open, and no time of access is kept.
   */
  | readonly ["attach", image: string, target: string]
  /** The same for an image that was mounted before: a device that has it still is used again. */
  | readonly ["reattach", image: string, target: string]
  /** The same for a disk that several processes may mount. Programs of it run. */
  | readonly ["shared", image: string, target: string]
  /** The same of an XFS image, which gives blocks that become free back to its file. */
  | readonly ["store", image: string, target: string]
  /**
   * Makes a mounted XFS as large as so many bytes of its image, while others use it; one that is as
   * large, or larger, stays as it is.
   */
  | readonly ["grow", image: string, target: string, sizeBytes: string]
  /** Detaches a mount. */
  | readonly ["unmount", path: string]
  /** Gives a file or folder to a user and the group of the same id; a link is followed. */
  | readonly ["own", path: string, id: string]
  /** Moves this process into a cgroup, by the path of its `cgroup.procs`. */
  | readonly ["enter", path: string]
  /** Moves this process into the network namespace of a file. */
  | readonly ["netns", path: string]
  /**
   * A limit of this process and of what it becomes, by the kernel's number; each value is a number or
   * `unlimited`. Where the hard one may not be raised, it bounds both.
   */
  | readonly ["limit", resource: string, soft: string, hard: string]
  /**
   * Ends real-time scheduling of this process and of what it becomes, and another personality, such as
   * addresses that are not at random.
   */
  | readonly ["normal"]
  /** Opens a program that `run` starts although the user that it becomes may not find its path. */
  | readonly ["open", path: string]
  /** Gives up root for good: this user and group, no others, and no way to more rights. */
  | readonly ["become", id: string]
  /** Sets an environment variable of what it becomes. */
  | readonly ["setenv", name: string, value: string]
  /** Writes a text into a file, which is made with mode 0644 where it is missing. */
  | readonly ["write", path: string, text: string]
  /** Marks a folder so that an overlay shows nothing of what lies below it. */
  | readonly ["opaque", path: string]
  /** Points a descriptor at an empty file in memory; a reader of its pipe sees the end then. */
  | readonly ["null", descriptor: "0" | "1" | "2"]
  /**
   * Starts a process that makes a stream on standard output of the files that are written to the file
   * system of the next `taken`, at most so many bytes; it ends with that. In no file of the host.
   */
  | readonly ["take", limitBytes: string]
  /** Mounts that file system, in a mount namespace of this process. */
  | readonly ["taken", target: string]
  /**
   * Mounts a file system in memory, writes `ready` and a line feed to standard output, and waits for
   * `go` and a line feed on standard input: the caller fills it by way of this process meanwhile.
   */
  | readonly ["give", target: string, sizeBytes: string]
  /** Waits for `go` and a line feed on standard input. */
  | readonly ["await"]
  | readonly ["exec", file: string, ...args: string[]]
  /** As `exec`, with the program of the last `open`; the first word is the name that it sees. */
  | readonly ["run", name: string, ...args: string[]]
  | readonly ["exit"];

/** The command that does the steps; the last one must be `exec`, `run` or `exit`. */
export function launcherCommand(
  perlDirectory: string,
  steps: readonly LauncherStep[],
): [string, ...string[]] {
  const last = steps.at(-1)?.[0];
  assert(last === "exec" || last === "run" || last === "exit", "the last step ends the launcher");
  const caller = [process.arch, String(process.pid)];
  return perlCommand(perlDirectory, "launcher", [...caller, ...steps.flat()]);
}
