/** Configuration of containerd, of the network of Pods and of the kubelet. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** As images name it; nodes reach it at the address of the control plane. */
export const REGISTRY = "127.0.0.1:5000";
export const CONTROL_ADDRESS = "192.0.2.2";
const PAUSE_IMAGE = `${REGISTRY}/pause:1`;
/** Processes and threads that a Pod may have. */
export const POD_PIDS = 512;

/** Of one node. */
export interface NodePlace {
  readonly name: string;
  /** Of all nodes. */
  readonly directory: string;
  readonly bin: string;
  readonly podNetwork: string;
}

/** Where the files of a node are, each with the name of the node in its own. */
export function nodePaths({ name, directory }: Pick<NodePlace, "name" | "directory">) {
  const path = (kind: string) => join(directory, `${name}-${kind}`);
  return {
    containerd: path("containerd.toml"),
    images: path("containerd"),
    kubelet: path("kubelet.json"),
    root: path("kubelet"),
    network: path("cni"),
    registries: join(directory, "registries"),
  };
}

export function writeContainerdConfig(place: NodePlace): void {
  const { bin } = place;
  const paths = nodePaths(place);
  writeRegistries(paths.registries);
  const runtime = "plugins.'io.containerd.cri.v1.runtime'";
  const images = "plugins.'io.containerd.cri.v1.images'";
  writeFileSync(
    paths.containerd,
    `version = 3
root = "${paths.images}"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[ttrpc]
  address = "/run/containerd/containerd.sock.ttrpc"
[${runtime}]
  # Programs without CAP_SYS_RESOURCE may not lower their score.
  restrict_oom_score_adj = true
  [${runtime}.containerd]
    default_runtime_name = "runc"
    [${runtime}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [${runtime}.containerd.runtimes.runc.options]
        BinaryName = "${join(bin, "runc")}"
        SystemdCgroup = false
  [${runtime}.cni]
    bin_dirs = ["${bin}"]
    conf_dir = "${paths.network}"
[${images}]
  snapshotter = "overlayfs"
  [${images}.pinned_images]
    sandbox = "${PAUSE_IMAGE}"
  [${images}.registry]
    config_path = "${paths.registries}"
`,
  );
}

/** The registry is in the network namespace of the control plane. */
function writeRegistries(directory: string): void {
  const url = `http://${CONTROL_ADDRESS}:5000`;
  mkdirSync(join(directory, REGISTRY), { recursive: true });
  writeFileSync(
    join(directory, REGISTRY, "hosts.toml"),
    `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`,
  );
}

export function writeNetworkConfig(place: NodePlace): void {
  const directory = nodePaths(place).network;
  mkdirSync(directory, { recursive: true });
  const bridge = {
    type: "bridge",
    bridge: "pods0",
    isGateway: true,
    ipMasq: false,
    ipam: {
      type: "host-local",
      dataDir: "/run/cni",
      ranges: [[{ subnet: place.podNetwork }]],
      routes: [{ dst: "0.0.0.0/0" }],
    },
  };
  const list = { cniVersion: "1.0.0", name: "pods", plugins: [bridge, { type: "loopback" }] };
  writeFileSync(
    join(directory, "10-pods.conflist"),
    JSON.stringify({ ...list, plugins: [bridge] }),
  );
}

export function writeKubeletConfig(place: NodePlace): void {
  const resolver = join(place.directory, "resolv.conf");
  writeFileSync(resolver, "nameserver 192.0.2.1\n");
  writeFileSync(
    nodePaths(place).kubelet,
    JSON.stringify({
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      authentication: { anonymous: { enabled: false }, webhook: { enabled: false } },
      authorization: { mode: "AlwaysAllow" },
      failCgroupV1: false,
      cgroupDriver: "cgroupfs",
      cgroupsPerQOS: true,
      enforceNodeAllocatable: [],
      podPidsLimit: POD_PIDS,
      failSwapOn: false,
      containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
      maxPods: 250,
      serializeImagePulls: false,
      imageGCHighThresholdPercent: 100,
      evictionHard: {
        "memory.available": "1%",
        "nodefs.available": "1%",
        "imagefs.available": "1%",
      },
      resolvConf: resolver,
      nodeStatusUpdateFrequency: "5s",
      oomScoreAdj: 0,
    }),
  );
}
