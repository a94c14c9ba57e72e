/** A real control plane and two nodes, from the built programs; the first node is in the present namespaces. */

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClusterApi, type ClusterApi } from "../../../src/cluster/api/api.ts";
import { CONTROL_ADDRESS } from "./node-config.ts";
import { startNode, type ClusterNode } from "./node.ts";
import { startProgram, type Program } from "./process.ts";

const API_URL = "https://127.0.0.1:6443";
/** For a node with a network of its own. */
const OUTER_URL = `https://${CONTROL_ADDRESS}:6443`;
const READY_MS = 180_000;

export interface Cluster extends AsyncDisposable {
  readonly directory: string;
  readonly url: string;
  readonly ca: string;
  readonly adminToken: string;
  /** As administrator, in a namespace. */
  admin(namespace: string): ClusterApi;
  readonly programs: Readonly<Record<"etcd" | "api" | "scheduler" | "controllers", Program>>;
  readonly nodes: readonly ClusterNode[];
}

export async function startCluster(bin: string, directory: string): Promise<Cluster> {
  mkdirSync(directory, { recursive: true });
  const path = (name: string) => join(directory, name);
  const adminToken = randomBytes(16).toString("hex");
  writeCertificates(directory);
  writeKubeconfig(path("admin.conf"), { token: adminToken, server: API_URL, directory });
  const lines = [`${adminToken},admin,admin,"system:masters"`];
  for (const { name, server } of NODES) {
    const token = randomBytes(16).toString("hex");
    lines.push(`${token},system:node:${name},${name},"system:nodes"`);
    writeKubeconfig(path(`${name}.conf`), { token, server, directory });
  }
  writeFileSync(path("tokens.csv"), `${lines.join("\n")}\n`);
  const environment = { PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  const run = (name: string, words: readonly [string, ...string[]]) =>
    startProgram({ directory, name, words, environment });
  const etcd = run("etcd", [
    "etcd",
    `--data-dir=${path("etcd")}`,
    "--listen-client-urls=http://127.0.0.1:2379",
    "--advertise-client-urls=http://127.0.0.1:2379",
    "--listen-peer-urls=http://127.0.0.1:2380",
    "--unsafe-no-fsync",
  ]);
  const api = run("api", [join(bin, "kube-apiserver"), ...apiFlags(path)]);
  const scheduler = run("scheduler", [
    join(bin, "kube-scheduler"),
    `--kubeconfig=${path("admin.conf")}`,
    "--leader-elect=false",
  ]);
  const controllers = run("controllers", [
    join(bin, "kube-controller-manager"),
    `--kubeconfig=${path("admin.conf")}`,
    `--service-account-private-key-file=${path("account.key")}`,
    `--root-ca-file=${path("api.crt")}`,
    "--use-service-account-credentials=true",
    "--leader-elect=false",
    "--node-monitor-grace-period=20s",
  ]);
  const programs = { etcd, api, scheduler, controllers };
  const ca = readFileSync(path("api.crt"), "utf8");
  const admin = (namespace: string) =>
    createClusterApi({
      url: new URL(API_URL),
      namespace,
      readCa: async () => ca,
      readToken: async () => adminToken,
    });
  const nodes: ClusterNode[] = [];
  for (const node of NODES) {
    nodes.push(await startNode({ ...node, directory, bin, kubeconfig: path(`${node.name}.conf`) }));
  }
  for (const { name, kubelet } of nodes) await awaitNode(admin("default"), name, kubelet);
  return {
    directory,
    url: API_URL,
    ca,
    adminToken,
    admin,
    programs,
    nodes,
    async [Symbol.asyncDispose]() {
      for (const ended of [...nodes, controllers, scheduler, api, etcd]) {
        await ended[Symbol.asyncDispose]();
      }
    },
  };
}

const NODES = [
  {
    name: "node1",
    server: API_URL,
    address: CONTROL_ADDRESS,
    podNetwork: "10.88.0.0/16",
    isOwn: false,
  },
  {
    name: "node2",
    server: OUTER_URL,
    address: "203.0.113.2",
    podNetwork: "10.89.0.0/16",
    isOwn: true,
  },
] as const;

function apiFlags(path: (name: string) => string): string[] {
  return [
    "--etcd-servers=http://127.0.0.1:2379",
    "--bind-address=0.0.0.0",
    `--advertise-address=${CONTROL_ADDRESS}`,
    "--secure-port=6443",
    `--tls-cert-file=${path("api.crt")}`,
    `--tls-private-key-file=${path("api.key")}`,
    `--token-auth-file=${path("tokens.csv")}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${path("account.key")}`,
    `--service-account-signing-key-file=${path("account.key")}`,
    "--service-cluster-ip-range=10.96.0.0/16",
    "--allow-privileged=true",
  ];
}

function writeCertificates(directory: string): void {
  const names = "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,IP:192.0.2.2,DNS:kubernetes.default.svc";
  const openssl = (words: string) =>
    execFileSync("openssl", words.split(" "), { cwd: directory, stdio: "ignore" });
  const files = `-addext ${names} -keyout api.key -out api.crt`;
  openssl(`req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kube-api ${files}`);
  openssl("genrsa -out account.key 2048");
}

interface Access {
  readonly token: string;
  readonly server: string;
  readonly directory: string;
}

function writeKubeconfig(file: string, { token, server, directory }: Access): void {
  const cluster = { server, "certificate-authority": join(directory, "api.crt") };
  const value = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster }],
    users: [{ name: "test", user: { token } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    "current-context": "test",
  };
  writeFileSync(file, JSON.stringify(value), { mode: 0o600 });
}

async function awaitNode(admin: ClusterApi, name: string, kubelet: Program): Promise<void> {
  const endMs = performance.now() + READY_MS;
  let lastFault: unknown;
  while (performance.now() < endMs) {
    try {
      const path = `/api/v1/nodes/${name}`;
      const node = JSON.stringify(await admin.call({ method: "GET", path }));
      if (/"type":"Ready","status":"True"|"status":"True"[^}]*"type":"Ready"/.test(node)) return;
      const ready = /\{[^{}]*"type":"Ready"[^{}]*\}/.exec(node)?.[0] ?? "";
      if (ready.includes('"status":"True"')) return;
    } catch (error) {
      lastFault = error;
    }
    await delay(500);
  }
  throw new Error(`${name} is not ready; its kubelet is process ${kubelet.pid}`, {
    cause: lastFault,
  });
}
