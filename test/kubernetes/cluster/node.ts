/** A node of the cluster: containerd and a kubelet, in the present namespaces or in some of their own. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  nodePaths,
  writeContainerdConfig,
  writeKubeletConfig,
  writeNetworkConfig,
} from "./node-config.ts";
import { startProgram, type Program } from "./process.ts";

const SCRIPT = join(import.meta.dirname, "node.sh");
/** A kubelet ends at once when its runtime does not answer yet. */
const AFTER_CONTAINERD = 'until "$0" version >/dev/null 2>&1; do sleep 0.1; done; exec "$@"';
const HOLD_MS = 20_000;
const POLL_MS = 50;

export interface ClusterNode extends AsyncDisposable {
  readonly name: string;
  readonly containerd: Program;
  readonly kubelet: Program;
}

export interface NodeOptions {
  readonly name: string;
  readonly directory: string;
  readonly bin: string;
  readonly address: string;
  readonly podNetwork: string;
  readonly kubeconfig: string;
  /** Beside the control plane, or with namespaces of its own. */
  readonly isOwn: boolean;
}

export async function startNode(options: NodeOptions): Promise<ClusterNode> {
  const { name, directory, bin, address, kubeconfig, isOwn } = options;
  const paths = nodePaths(options);
  writeNetworkConfig(options);
  writeContainerdConfig(options);
  writeKubeletConfig(options);
  await using stack = new AsyncDisposableStack();
  const prefix = isOwn ? [SCRIPT, "run", name, String(await hold(stack, options))] : [];
  const environment = { PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  const run = (program: string, args: readonly string[]) => {
    const [file = "", ...words] = [...prefix, ...args];
    return stack.use(
      startProgram({ directory, name: `${name}-${program}`, words: [file, ...words], environment }),
    );
  };
  const containerd = run("containerd", [join(bin, "containerd"), `--config=${paths.containerd}`]);
  const kubelet = run("kubelet", [
    "/bin/sh",
    "-c",
    AFTER_CONTAINERD,
    join(bin, "ctr"),
    join(bin, "kubelet"),
    `--config=${paths.kubelet}`,
    `--kubeconfig=${kubeconfig}`,
    `--hostname-override=${name}`,
    `--node-ip=${address}`,
    `--root-dir=${paths.root}`,
    "--v=2",
  ]);
  const owned = stack.move();
  return { name, containerd, kubelet, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The process that has the namespaces of a node, once its network is there. */
async function hold(
  stack: AsyncDisposableStack,
  { name, directory }: NodeOptions,
): Promise<number> {
  const words = [SCRIPT, "hold", name, String(process.pid)] as const;
  const holder = stack.use(startProgram({ directory, name: `${name}-holder`, words }));
  const log = join(directory, `${name}-holder.log`);
  const said = () => (existsSync(log) ? readFileSync(log, "utf8") : "");
  const endMs = performance.now() + HOLD_MS;
  while (performance.now() < endMs) {
    await delay(POLL_MS);
    const { pid } = holder;
    if (pid !== undefined && /^ready$/m.test(said())) return pid;
  }
  throw new Error(`${name} has no network: ${said()}`);
}
