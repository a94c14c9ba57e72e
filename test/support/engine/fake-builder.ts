/** A stand-in for the builder of the template `base`: quick, without a network, and it can fail. */

import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { baseLayers } from "../base-layer.ts";
import { PROGRAM } from "../program.ts";

export interface FakeBuilder extends AsyncDisposable {
  /** The program in a mount namespace of its own, in which the stand-in is the builder. */
  readonly program: readonly [string, ...string[]];
  /** How many builds were begun. */
  begun(): Promise<number>;
  /** Temporary directories that its builds left, as the real one does when it is killed. */
  left(): Promise<readonly string[]>;
  /** From now on it fails. */
  fail(): Promise<void>;
  /** From now on it works again. */
  repair(): Promise<void>;
  /** Its builds end only after the release. */
  hold(): Promise<void>;
  release(): Promise<void>;
}

const BUILDER = "/usr/bin/mmdebstrap";

/** One whose builds take at least so many seconds. */
export async function openFakeBuilder(seconds: number): Promise<FakeBuilder> {
  const folder = await mkdtemp(join(tmpdir(), "smcp-builder-"));
  const names = ["builder", "begun", "fault", "held", "temporary"];
  const [script, list, fault, held = "", temporary = ""] = names.map((name) => join(folder, name));
  const [layer] = await baseLayers();
  const text = `#!/bin/sh
for word; do case $word in --*) ;; /*) root=$word; break ;; esac; done
mktemp -d -t mmdebstrap.gpghome.XXXXXXXXXXXX >> ${temporary}
echo begun >> ${list}
echo 'I: downloading packages with apt...' >&2
[ ! -e ${fault} ] || { echo 'E: the mirror has burnt down' >&2; exit 1; }
sleep ${seconds}
while [ -e ${held} ]; do sleep 0.1; done
mkdir -p "$root"
cp -al ${layer?.root}/. "$root" 2> /dev/null || cp -a ${layer?.root}/. "$root"
# What the build writes next must not be written into the layer that all tests share.
rm -rf "$root/etc" "$root/home" "$root/root" && cp -a ${layer?.root}/etc ${layer?.root}/home ${layer?.root}/root "$root"
`;
  await writeFile(script ?? "", text);
  await chmod(script ?? "", 0o755);
  const mount = `mount --bind ${script} ${BUILDER} && exec "$@"`;
  return {
    program: ["unshare", "--mount", "sh", "-c", mount, "sh", process.execPath, PROGRAM],
    begun: async () => (await readLines(list ?? "")).length,
    left: async () => (await readLines(temporary)).filter((path) => existsSync(path)),
    fail: () => writeFile(fault ?? "", ""),
    repair: () => rm(fault ?? "", { force: true }),
    hold: () => writeFile(held, ""),
    release: () => rm(held, { force: true }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

async function readLines(path: string): Promise<string[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}
