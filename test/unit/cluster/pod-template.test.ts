/** The template of an operator: placement is taken over, what weakens the isolation is refused. */

import { expect, test } from "vitest";
import { toPod } from "../../../src/cluster/pods/pod-spec.ts";
import { toPodTemplate } from "../../../src/cluster/pods/pod-template.ts";

const LIMITS = { memoryMb: 256, cpus: 2, diskMb: 1024, pids: 64 };
const parse = (spec: object, metadata: object = {}) => toPodTemplate({ metadata, spec }, "file");

test.for([
  { hostUsers: true },
  { hostNetwork: true },
  { hostPID: true },
  { automountServiceAccountToken: true },
  { serviceAccountName: "admin" },
  { securityContext: { seccompProfile: { type: "Unconfined" } } },
  { volumes: [{ name: "host", hostPath: { path: "/" } }] },
  { initContainers: [] },
  { shareProcessNamespace: true },
  { nodeName: "node1" },
  { containers: [{ name: "sandbox", securityContext: { privileged: true } }] },
  { containers: [{ name: "sandbox", image: "other" }] },
  { containers: [{ name: "sandbox", command: ["sh"] }] },
  { containers: [{ name: "sandbox", resources: { limits: { memory: "64Gi" } } }] },
  { containers: [{ name: "sidecar" }] },
  { containers: [{ name: "sandbox" }, { name: "sandbox" }] },
])("%j is refused", (spec) => {
  expect(() => parse(spec)).toThrow(/pod template file/);
});

test("labels of the service cannot be set", () => {
  expect(() => parse({}, { labels: { "sandbox-mcp.io/part": "pool" } })).toThrow(/set by the/);
});

test.for([undefined, null, [], "text", 1])("%j is no template", (value) => {
  expect(() => toPodTemplate(value, "file")).toThrow(/^pod template file: /);
});

test("the Pod of a sandbox is isolated, whatever the template adds", () => {
  const template = parse(
    {
      nodeSelector: { pool: "a" },
      runtimeClassName: "gvisor",
      tolerations: [{ key: "k" }],
      containers: [{ name: "sandbox", resources: { requests: { cpu: "10m" } } }],
    },
    { labels: { team: "x" }, annotations: { note: "y" } },
  );
  const plan = { image: "image:1", limits: LIMITS, passPublicKey: "KEY", template };
  expect(toPod(plan, "i1", { name: "i1", uid: "u" })).toEqual({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "i1",
      labels: {
        team: "x",
        "app.kubernetes.io/managed-by": "sandbox-mcp",
        "sandbox-mcp.io/part": "sandbox",
        "sandbox-mcp.io/shape": expect.stringMatching(/^[0-9a-f]{16}$/),
      },
      annotations: { note: "y" },
      ownerReferences: [
        { apiVersion: "v1", kind: "ConfigMap", name: "i1", uid: "u", controller: true },
      ],
    },
    spec: {
      dnsPolicy: "Default",
      nodeSelector: { pool: "a" },
      runtimeClassName: "gvisor",
      hostUsers: false,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 1,
      securityContext: { seccompProfile: { type: "RuntimeDefault" } },
      tolerations: [
        { key: "k" },
        ...["not-ready", "unreachable"].map((state) => ({
          key: `node.kubernetes.io/${state}`,
          operator: "Exists",
          effect: "NoExecute",
          tolerationSeconds: 60,
        })),
      ],
      containers: [
        {
          name: "sandbox",
          image: "image:1",
          imagePullPolicy: "IfNotPresent",
          command: expect.arrayContaining(["-c", "i1"]),
          resources: {
            limits: { cpu: "2", memory: "256Mi", "ephemeral-storage": "1024Mi" },
            requests: { cpu: "10m", memory: "256Mi", "ephemeral-storage": "1024Mi" },
          },
          securityContext: {
            privileged: false,
            runAsUser: 0,
            capabilities: {
              drop: ["ALL"],
              add: [
                "CHOWN",
                "DAC_OVERRIDE",
                "FOWNER",
                "FSETID",
                "KILL",
                "NET_BIND_SERVICE",
                "SETFCAP",
                "SETGID",
                "SETPCAP",
                "SETUID",
                "SYS_CHROOT",
              ],
            },
          },
        },
      ],
    },
  });
});
