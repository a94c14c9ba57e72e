/** Configuration of containerd, of the network of Pods and of the kubelet. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const REGISTRY = "127.0.0.1:5000";
const PAUSE_IMAGE = `${REGISTRY}/pause:1`;

interface Place {
  readonly path: string;
  readonly directory: string;
}

export function writeContainerdConfig({
  path,
  directory,
  bin,
}: Place & { readonly bin: string }): void {
  const runtime = "plugins.'io.containerd.cri.v1.runtime'";
  const images = "plugins.'io.containerd.cri.v1.images'";
  writeFileSync(
    path,
    `version = 3
root = "${join(directory, "containerd")}"
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
    conf_dir = "${join(directory, "cni")}"
[${images}]
  snapshotter = "overlayfs"
  [${images}.pinned_images]
    sandbox = "${PAUSE_IMAGE}"
`,
  );
}

export function writeNetworkConfig(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const bridge = {
    type: "bridge",
    bridge: "pods0",
    isGateway: true,
    ipMasq: false,
    ipam: {
      type: "host-local",
      dataDir: "/run/cni",
      ranges: [[{ subnet: "10.88.0.0/16" }]],
      routes: [{ dst: "0.0.0.0/0" }],
    },
  };
  const list = { cniVersion: "1.0.0", name: "pods", plugins: [bridge, { type: "loopback" }] };
  writeFileSync(
    join(directory, "10-pods.conflist"),
    JSON.stringify({ ...list, plugins: [bridge] }),
  );
}

export function writeKubeletConfig({ path, directory }: Place): void {
  const resolver = join(directory, "resolv.conf");
  writeFileSync(resolver, "nameserver 192.0.2.1\n");
  writeFileSync(
    path,
    JSON.stringify({
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      authentication: { anonymous: { enabled: false }, webhook: { enabled: false } },
      authorization: { mode: "AlwaysAllow" },
      failCgroupV1: false,
      cgroupDriver: "cgroupfs",
      cgroupsPerQOS: true,
      enforceNodeAllocatable: [],
      localStorageCapacityIsolation: false,
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
