/** Podman as it is unpacked beside the bench: everything that it keeps lies in one folder. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "../test/support/base-layer.ts";
import type { Peers } from "./peers.ts";
import { ONE_TREE, type PeerRuntime } from "./runtime.ts";

const run = promisify(execFile);

/** Its own limits are above what some machines allow, and groups that it makes would stay behind. */
const UNLIMITED = ["nofile=1024:1024", "nproc=1024:1024"]
  .flatMap((limit) => ["--ulimit", limit])
  .concat("--cgroups", "disabled");

/** Tries it once, so that what does not run here says why. `runtime` starts its containers. */
export async function openPodman(
  { debian, libraryPath, binaryPath }: Peers,
  runtime: string,
): Promise<PeerRuntime> {
  if ("missing" in debian.podman) throw new Error(debian.podman.missing);
  const folder = await mkdtemp(join(tmpdir(), "smcp-bench-"));
  const [layer] = await baseLayers();
  const keep = (name: string) => join(folder, name);
  const words = [
    ...["-m", "sh", "-c", ONE_TREE, "sh", debian.podman.path],
    ...["--root", keep("storage"), "--runroot", keep("run"), "--tmpdir", keep("tmp")],
    ...["--conmon", join(dirname(debian.podman.path), "conmon"), "--runtime", runtime],
    ...["--cgroup-manager", "cgroupfs", "--events-backend", "none"],
    ...["run", "--rm", "--network", "none", ...UNLIMITED],
    ...["--rootfs", `${layer?.root}:O`, "true"],
  ];
  const env = {
    HOME: keep("home"),
    PATH: `${binaryPath}:${process.env["PATH"]}`,
    LD_LIBRARY_PATH: libraryPath,
  };
  const peer: PeerRuntime = {
    runTrue: async () => void (await run("unshare", words, { env })),
    [Symbol.asyncDispose]: async () => rm(folder, { recursive: true, force: true }),
  };
  try {
    await mkdir(keep("home"));
    await peer.runTrue();
    return peer;
  } catch (error) {
    await peer[Symbol.asyncDispose]();
    throw error;
  }
}
