/** Objects that fronts create in a cluster, one for each way in which they are made. */

import { labelsOf, toNetworkPolicy } from "../../../src/cluster/egress-policy.ts";
import { toPod } from "../../../src/cluster/pods/pod-spec.ts";
import { toPodTemplate } from "../../../src/cluster/pods/pod-template.ts";
import { toClaim, toClaimSpec } from "../../../src/cluster/volumes/records.ts";

export function frontObjects(): unknown[] {
  const limits = { memoryMb: 256, cpus: 2, diskMb: 1024, pids: 64 };
  const template = toPodTemplate(
    {
      metadata: { labels: { team: "a" }, annotations: { note: "b" } },
      spec: {
        nodeSelector: { pool: "a" },
        runtimeClassName: "gvisor",
        priorityClassName: "low",
        tolerations: [{ key: "a", operator: "Exists", effect: "NoSchedule" }],
        imagePullSecrets: [{ name: "registry" }],
        containers: [{ name: "sandbox", resources: { requests: { cpu: 1 } } }],
      },
    },
    "trial",
  );
  const plan = { image: "image:1", limits, passPublicKey: "key", template };
  const owner = { name: "i1", uid: "uid", podLabels: labelsOf("i1") };
  const settings = { denied: ["10.0.0.0/8"], nameServers: ["10.96.0.10"] };
  const rules = { allow: ["192.0.2.1/32"], deny: ["198.51.100.0/24"] };
  const volumes = { storageClass: "shared", accessMode: "ReadWriteMany", sizeMb: 64 };
  const volume = { persistentVolumeClaim: { claimName: "volume-a" } };
  const ephemeral = { ephemeral: { volumeClaimTemplate: { spec: toClaimSpec(volumes) } } };
  return [
    toPod(plan, "i1", owner),
    toPod(plan, "i2", "pool"),
    toPod(
      {
        ...plan,
        mounts: [
          { path: "/a", volume },
          { path: "/b", volume: ephemeral },
        ],
      },
      "i3",
      owner,
    ),
    toClaim({ name: "data", team: "local", createdAtMs: 0, sizeMb: 64 }, volumes),
    toNetworkPolicy(owner, rules, settings),
  ];
}
