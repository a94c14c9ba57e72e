/** What one sandbox can do to others that is within its rights: scripts, and callers from outside. */

/** Set off in a sandbox of its own, which is ended with it. */
export interface Bomb {
  readonly name: string;
  /** Run inside, as the default user. */
  readonly inside?: string;
  /** Run outside, by a program of its own with the address of the sandbox. */
  readonly outside?: OutsideKind;
  /** Where there are no cgroups and no disk of its own, only the machine is its limit. */
  readonly needsLimits?: true;
}

export type OutsideKind = "connections" | "slow readers" | "output" | "watch";

const STORM = `cd /var/tmp; while :; do
for d in 1 2 3 4 5 6 7 8 9; do mkdir -p w/$d/$d; for f in 1 2 3 4 5 6 7 8 9; do : > w/$d/$f; : > w/$d/$d/$f; done; done
rm -rf w/*; done`;

/** All of them. */
export const BOMBS: readonly Bomb[] = [
  { name: "forks", inside: "f() { f | f & }; f; sleep 60", needsLimits: true },
  { name: "memory", inside: "while :; do tail /dev/zero; done", needsLimits: true },
  {
    name: "disk",
    inside: "cd /var/tmp; while :; do head -c 4000000000 /dev/zero > full; rm full; done",
    needsLimits: true,
  },
  {
    name: "inodes",
    inside:
      "cd /var/tmp; while :; do mkdir d; i=0; while : > d/$i; do i=$((i+1)); done; rm -rf d; done",
    needsLimits: true,
  },
  { name: "processor", inside: "for i in 1 2 3 4; do while :; do :; done & done; wait" },
  { name: "output that is read", inside: "exec sleep 60", outside: "output" },
  { name: "output that nobody reads", inside: "exec sleep 60", outside: "slow readers" },
  { name: "events of a watch", inside: STORM, outside: "watch" },
  { name: "connections", inside: "exec sleep 60", outside: "connections" },
];
