/** A home on a mount whose programs do not run, as guides to hardening ask for. */

import { expect, test } from "vitest";
import { isRootless } from "../../../src/common/privilege.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { runnableIn } from "../../../src/engine/templates/runnable.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const OWN_MOUNTS = ["unshare", "--mount", "--propagation", "private"] as const;
const HARDEN =
  'mount -t tmpfs -o noexec,nosuid,nodev none "$0"; cp /bin/sh "$0/program"; exec "$@"';

test.skipIf(isRootless())(
  "a tree that is built there runs its programs and has devices",
  async () => {
    await using folder = await makeTempFolder();
    const hardened = [...OWN_MOUNTS, "sh", "-c", HARDEN, folder.path] as const;
    const program = [`${folder.path}/program`, "-c", 'mknod "$0" c 1 3; echo x > "$0"; echo ran'];
    const words = [...program, `${folder.path}/null`];
    await expect(runProgram([...hardened, ...words])).rejects.toThrow(/Permission denied/);
    expect(await runProgram([...hardened, ...runnableIn(folder.path), ...words])).toBe("ran\n");
  },
);
