/**
 * Runs an attack without any defence, as root of this machine: the proof that it is an attack. Only
 * what keeps the machine itself from harm stands around it: namespaces of its own, made with all
 * privileges kept, and a throw-away layer over the base template.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { baseLayers } from "../base-layer.ts";
import {
  ATTACKS,
  attackCommand,
  makeCanary,
  parseOutcomes,
  type Attack,
  type Outcomes,
} from "./attack-range.ts";

const LIMIT_MS = 60_000;

/**
 * Own mounts, then the root of the base template under a layer in memory. What a sandbox has masked
 * is masked here too, by the mounts that an attack tries to undo.
 */
const STAGE = `set -eu
lower=$1 attacks=$2 way=$3 folder=$4; shift 4
mount -t tmpfs none "$folder"; cd "$folder"
mkdir upper work root
mount -t overlay -o "lowerdir=$lower,upperdir=upper,workdir=work" none root
mkdir -p root/opt/attacks root/host
mount --bind "$attacks" root/opt/attacks
mount -t proc proc root/proc
mount --rbind /sys root/sys
mount --rbind /dev root/dev
mount -t tmpfs none root/tmp
mount --bind root/dev/null root/proc/interrupts
mount --bind root/proc/sys root/proc/sys
cd root
if [ "$way" = leak ]; then exec 9</; fi
if [ "$way" != chroot ]; then pivot_root . host; fi
exec chroot . "$@"`;

/**
 * `pivot` gives it a root of its own, `leak` does too and leaves the machine's open as descriptor 9,
 * `chroot` gives it a root that only its name lookups end at.
 */
export async function attackUnconfined(
  attack: Attack,
  way: "pivot" | "leak" | "chroot" = "pivot",
): Promise<Outcomes> {
  const [layer] = await baseLayers();
  // A folder that the machine does not miss while something is mounted on it in the child alone.
  await using stage = await makeCanary();
  const spaces = ["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net"];
  const command = ["sh", "-c", STAGE, "sh", layer?.root ?? "", ATTACKS, way, stage.decoy];
  const { stdout } = await promisify(execFile)(
    "unshare",
    [...spaces, "--propagation", "private", "--", ...command, ...attackCommand(attack)],
    { timeout: LIMIT_MS, maxBuffer: 1 << 24 },
  );
  return parseOutcomes(stdout);
}
