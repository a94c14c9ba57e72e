/** A real control plane and one kubelet, from the built programs, in the present namespaces. */

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createClusterApi, type ClusterApi } from "../../../src/cluster/api.ts";
import { writeContainerdConfig, writeKubeletConfig, writeNetworkConfig } from "./node-config.ts";
import { startProgram, type Program } from "./process.ts";

const NODE_ADDRESS = "192.0.2.2";
const API_URL = "https://127.0.0.1:6443";
const READY_MS = 180_000;

export interface Cluster extends AsyncDisposable {
  readonly directory: string;
  readonly url: string;
  readonly ca: string;
  readonly adminToken: string;
  /** As administrator, in a namespace. */
  admin(namespace: string): ClusterApi;
  readonly programs: Readonly<
    Record<"etcd" | "api" | "scheduler" | "controllers" | "containerd" | "kubelet", Program>
  >;
}

export async function startCluster(bin: string, directory: string): Promise<Cluster> {
  mkdirSync(directory, { recursive: true });
  const path = (name: string) => join(directory, name);
  const adminToken = randomBytes(16).toString("hex");
  const nodeToken = randomBytes(16).toString("hex");
  writeFileSync(
    path("tokens.csv"),
    `${adminToken},admin,admin,"system:masters"\n${nodeToken},system:node:node1,node1,"system:nodes"\n`,
  );
  writeCertificates(directory);
  writeKubeconfig(path("admin.conf"), adminToken, directory);
  writeKubeconfig(path("node.conf"), nodeToken, directory);
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
  writeNetworkConfig(path("cni"));
  writeContainerdConfig({ path: path("containerd.toml"), bin, directory });
  writeKubeletConfig({ path: path("kubelet.json"), directory });
  const containerd = run("containerd", [
    join(bin, "containerd"),
    `--config=${path("containerd.toml")}`,
  ]);
  const kubelet = run("kubelet", [
    join(bin, "kubelet"),
    `--config=${path("kubelet.json")}`,
    `--kubeconfig=${path("node.conf")}`,
    "--hostname-override=node1",
    `--node-ip=${NODE_ADDRESS}`,
    `--root-dir=${path("kubelet")}`,
    "--v=2",
  ]);
  const programs = { etcd, api, scheduler, controllers, containerd, kubelet };
  const ca = readFileSync(path("api.crt"), "utf8");
  const admin = (namespace: string) =>
    createClusterApi({ url: new URL(API_URL), namespace, ca, readToken: async () => adminToken });
  await awaitNode(admin("default"), kubelet);
  return {
    directory,
    url: API_URL,
    ca,
    adminToken,
    admin,
    programs,
    async [Symbol.asyncDispose]() {
      for (const program of [kubelet, containerd, controllers, scheduler, api, etcd]) {
        await program[Symbol.asyncDispose]();
      }
    },
  };
}

function apiFlags(path: (name: string) => string): string[] {
  return [
    "--etcd-servers=http://127.0.0.1:2379",
    "--bind-address=0.0.0.0",
    `--advertise-address=${NODE_ADDRESS}`,
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

function writeKubeconfig(file: string, token: string, directory: string): void {
  const cluster = { server: API_URL, "certificate-authority": join(directory, "api.crt") };
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

async function awaitNode(admin: ClusterApi, kubelet: Program): Promise<void> {
  const endMs = performance.now() + READY_MS;
  let lastFault: unknown;
  while (performance.now() < endMs) {
    try {
      const node = JSON.stringify(await admin.call({ method: "GET", path: "/api/v1/nodes/node1" }));
      if (/"type":"Ready","status":"True"|"status":"True"[^}]*"type":"Ready"/.test(node)) return;
      const ready = /\{[^{}]*"type":"Ready"[^{}]*\}/.exec(node)?.[0] ?? "";
      if (ready.includes('"status":"True"')) return;
    } catch (error) {
      lastFault = error;
    }
    await delay(500);
  }
  throw new Error(`the node is not ready; kubelet is process ${kubelet.pid}`, { cause: lastFault });
}
