/** Podman as a peer: unpacked beside the bench, with settings and storage of its own in one folder. */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Peers } from "./peers.ts";

const run = promisify(execFile);

export interface Podman {
  /** From a registry without TLS; the storage is the folder's. */
  pull(image: string): Promise<unknown>;
}

/** Writes what podman reads otherwise below /etc; what it makes is in the folder, too. */
export async function openPodman(
  { debian, libraryPath, binaryPath }: Peers,
  folder: string,
): Promise<Podman> {
  if ("missing" in debian.podman) throw new Error(debian.podman.missing);
  const { path } = debian.podman;
  const [settings, policy] = [join(folder, "containers.conf"), join(folder, "policy.json")];
  await writeFile(
    settings,
    [
      "[engine]",
      'cgroup_manager = "cgroupfs"',
      'events_logger = "none"',
      `conmon_path = ["${join(binaryPath, "conmon")}"]`,
      `tmp_dir = "${join(folder, "tmp")}"`,
      `image_copy_tmp_dir = "${folder}"`,
      "[network]",
      `network_config_dir = "${join(folder, "network")}"`,
      "",
    ].join("\n"),
  );
  await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}');
  await writeFile(join(folder, "registries.conf"), "");
  const environment = {
    HOME: folder,
    CONTAINERS_CONF: settings,
    CONTAINERS_REGISTRIES_CONF: join(folder, "registries.conf"),
    LD_LIBRARY_PATH: libraryPath,
    PATH: `${binaryPath}:${process.env["PATH"]}`,
  };
  const storage = [
    "--root",
    join(folder, "root"),
    "--runroot",
    join(folder, "run"),
    // Its default for root; a bind mount of the storage would outlive the program.
    "--storage-driver",
    "overlay",
    "--storage-opt",
    "overlay.skip_mount_home=true",
  ];
  return {
    pull: (image) =>
      run(
        path,
        [
          ...storage,
          "pull",
          "--quiet",
          "--tls-verify=false",
          `--signature-policy=${policy}`,
          `docker://${image}`,
        ],
        { env: { ...process.env, ...environment } },
      ),
  };
}
