/** Rules of egress of one sandbox where policies are enforced: what is blocked, and what is not. */

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { Sandbox } from "e2b";
import { startPolicyAgent } from "../cluster/policy-agent.ts";
import { eventually, expectNothing, namesOf, type World } from "../world.ts";
import { clientOf } from "./faults.ts";

/** Hosts beyond the network of Pods; the machine has these addresses in this network namespace alone. */
const HOSTS = ["11.1.1.1", "11.1.2.1", "12.1.1.1"] as const;
/** The end of the bridge at the node, where fronts listen: no rule opens it. A node without Pods has none. */
const NODE = "10.88.0.1";
const PORT = 8_080;

interface Case {
  readonly name: string;
  readonly rules: object;
  readonly reached: readonly string[];
}

const CASES: readonly Case[] = [
  { name: "no internet access", rules: { allowInternetAccess: false }, reached: [] },
  {
    name: "a network that is denied",
    rules: { network: { denyOut: ["11.1.1.0/24"] } },
    reached: ["11.1.2.1", "12.1.1.1"],
  },
  {
    name: "all denied but one address",
    rules: { network: { denyOut: ["0.0.0.0/0"], allowOut: ["11.1.1.1/32"] } },
    reached: ["11.1.1.1"],
  },
  {
    name: "an allowed address within a denied network",
    rules: { network: { denyOut: ["11.0.0.0/8"], allowOut: ["11.1.2.1"] } },
    reached: ["11.1.2.1", "12.1.1.1"],
  },
  {
    name: "all denied but everything and the networks of the cluster",
    rules: { network: { denyOut: ["0.0.0.0/0"], allowOut: ["0.0.0.0/0", "10.0.0.0/8", NODE] } },
    reached: [...HOSTS],
  },
  { name: "no rules of its own", rules: {}, reached: [...HOSTS] },
];

export async function runEgress(world: World): Promise<void> {
  await using stack = new AsyncDisposableStack();
  for (const address of [...HOSTS, NODE]) {
    execFileSync("ip", ["address", "add", `${address}/32`, "dev", "lo"]);
    stack.defer(() => {
      execFileSync("ip", ["address", "del", `${address}/32`, "dev", "lo"]);
    });
  }
  const options = clientOf(world.url, world.apiKey);
  await world.check("egress: without an agent everything is reached", async () => {
    const sandbox = await Sandbox.create(options);
    for (const host of [...HOSTS, NODE]) {
      // A program that only connects may reset the connection.
      const server = createServer((socket) => socket.on("error", () => undefined).end("here\n"));
      server.listen({ host, port: PORT });
      await once(server, "listening");
      stack.defer(() => void server.close());
    }
    const reached = await probe(sandbox);
    await sandbox.kill();
    if (reached.join() !== [...HOSTS, NODE].join()) throw new Error(reached.join());
  });
  const agent = stack.use(startPolicyAgent(world.admin));
  await agent.synchronize();
  for (const { name, rules, reached } of CASES) {
    await world.check(`egress: ${name}`, async () => {
      const beganMs = performance.now();
      const sandbox = await Sandbox.create({ ...options, ...rules });
      const durationMs = Math.round(performance.now() - beganMs);
      await agent.synchronize();
      const found = await probe(sandbox);
      await sandbox.kill();
      await eventually(() => expectNothing(world.admin));
      await eventually(async () => {
        const left = await namesOf(world.admin, "networkpolicies", "egress");
        if (left.length > 0) throw new Error(`policies left: ${left.join(" ")}`);
      });
      if (found.join() !== reached.join()) throw new Error(`reached ${found.join()}`);
      return `created in ${durationMs} ms, reaches ${found.join() || "nothing"}`;
    });
  }
}

/** The hosts to which a program of the sandbox can connect. */
async function probe(sandbox: Sandbox): Promise<string[]> {
  const hosts = [...HOSTS, NODE].join(" ");
  const test = `timeout 3 bash -c "</dev/tcp/$host/${PORT}" 2>/dev/null && echo $host`;
  const { stdout } = await sandbox.commands.run(`for host in ${hosts}; do ${test}; done; true`);
  return stdout.split("\n").filter((line) => line !== "");
}
