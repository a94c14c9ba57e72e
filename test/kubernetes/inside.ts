/** The runs against a real cluster, within the namespaces that `main.ts` has made. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { plainManifests } from "../support/cluster/chart.ts";
import { startBalancer } from "./balancer.ts";
import { startCluster } from "./cluster/cluster.ts";
import { startFront, writeAccount, type Front } from "./cluster/front.ts";
import { pushImage, startRegistry, writeProgramImage } from "./cluster/images.ts";
import { runAttacks } from "./stages/attacks.ts";
import { runClients } from "./stages/clients.ts";
import { runCompare } from "./stages/compare.ts";
import { runDeployment } from "./stages/deployment.ts";
import { runDoctor } from "./stages/doctor.ts";
import { runEgress } from "./stages/egress.ts";
import { runEscapes } from "./stages/escapes.ts";
import { runFaults } from "./stages/faults.ts";
import { runInspect } from "./stages/inspect.ts";
import { createManifest, runInstall } from "./stages/install.ts";
import { runKeys } from "./stages/keys.ts";
import { runLimits } from "./stages/limits.ts";
import { runLoad } from "./stages/load.ts";
import { runMany } from "./stages/many.ts";
import { runMcp } from "./stages/mcp.ts";
import { runLostNode, runOutages } from "./stages/outages.ts";
import { runPauses } from "./stages/pauses.ts";
import { runPlacement } from "./stages/placement.ts";
import { runSnapshotFaults } from "./stages/snapshot-faults.ts";
import { runSnapshots } from "./stages/snapshots.ts";
import { runTeams } from "./stages/teams.ts";
import { runVolumes } from "./stages/volumes.ts";
import { eventually, SNAPSHOTS, type Given, type World } from "./world.ts";

const NAMESPACE = "sandboxes";
const ACCOUNT = "sandbox-mcp";
const API_KEY = `e2b_${"5".repeat(40)}`;
const BALANCER_PORT = 3_490;
const POOL = 2;

const STAGES = {
  install: runInstall,
  doctor: runDoctor,
  load: runLoad,
  many: runMany,
  compare: runCompare,
  clients: runClients,
  mcp: runMcp,
  inspect: runInspect,
  keys: runKeys,
  teams: runTeams,
  attacks: runAttacks,
  escapes: runEscapes,
  limits: runLimits,
  egress: runEgress,
  snapshots: runSnapshots,
  pauses: runPauses,
  "snapshot-faults": runSnapshotFaults,
  volumes: runVolumes,
  outages: runOutages,
  faults: runFaults,
  // Their fronts have shapes of Pods of their own, and may become the leader.
  placement: runPlacement,
  deployment: runDeployment,
  node: runLostNode,
} as const;

const [bin = "", work = "", archive = "", home = ""] = process.argv.slice(2);
const wanted = (process.env["KUBERNETES_STAGES"] ?? Object.keys(STAGES).join(",")).split(",");
/** What is installed for real; the fronts of the runs are processes beside the Pods. */
const INSTALLED = new Set(["Namespace", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"]);

const beganMs = performance.now();
const say = (text: string) =>
  process.stdout.write(`${((performance.now() - beganMs) / 1000).toFixed(1)} s  ${text}\n`);

await using stack = new AsyncDisposableStack();
const registry = stack.use(await startRegistry(work));
mkdirSync(join(work, "pause"));
pushImage(`oci:${writeProgramImage(join(work, "pause"), join(bin, "pause"))}`, "pause:1");
const image = pushImage(`oci-archive:${archive}`, "base:1");
say("images are in the registry");
const cluster = stack.use(await startCluster(bin, work));
say("the cluster is ready");
const admin = stack.use(cluster.admin(NAMESPACE));
for (const manifest of plainManifests()) {
  if (INSTALLED.has(manifest.kind)) await createManifest(admin, manifest, "keep");
}
await eventually(async () => admin.call({ method: "GET", path: "serviceaccounts/default" }));
const account = await writeAccount(cluster, NAMESPACE, ACCOUNT);
const template = join(work, "pod-template.yaml");
writeFileSync(
  template,
  `spec:
  containers:
    - name: sandbox
      resources:
        requests: { cpu: 10m, memory: 32Mi, ephemeral-storage: 0 }
`,
);

let nextPort = BALANCER_PORT + 1;
function startNamed(
  name: string,
  environment: Readonly<Record<string, string>> = {},
  given: Given = {},
): Front {
  const placement = `--pod-template ${given.template ?? template} --pool ${given.pool ?? POOL}`;
  const words = `${placement} --max-sandboxes 400 --toolsets all`;
  const flags = [...words.split(" "), "--egress-denied", "10.0.0.0/8,203.0.113.0/24"];
  if (given.hasSnapshots !== false) flags.push("--snapshot-registry", SNAPSHOTS);
  flags.push(...(given.flags ?? []));
  const port = nextPort;
  nextPort += 1;
  return startFront(cluster, {
    name,
    port,
    apiKey: API_KEY,
    account,
    image,
    flags,
    environment,
  });
}

const fronts = [stack.use(startNamed("front1")), stack.use(startNamed("front2"))];
stack.use(startBalancer(BALANCER_PORT, [BALANCER_PORT + 1, BALANCER_PORT + 2]));
for (const front of fronts) await front.ready();
say("both fronts answer");

let passed = 0;
let failed = 0;
const world: World = {
  cluster,
  admin,
  fronts,
  url: `http://127.0.0.1:${BALANCER_PORT}`,
  apiKey: API_KEY,
  directory: work,
  home,
  bin,
  account,
  template,
  image,
  archive,
  registry,
  startFront: startNamed,
  async check(name, attempt) {
    const startedMs = performance.now();
    try {
      const detail = await attempt();
      const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
      say(`ok      ${name} (${seconds} s)${detail === undefined ? "" : `: ${detail}`}`);
      passed += 1;
    } catch (error) {
      say(`FAILED  ${name}: ${error instanceof Error ? error.stack : String(error)}`);
      failed += 1;
    }
  },
};
for (const [name, stage] of Object.entries(STAGES)) {
  if (wanted.includes(name)) await stage(world);
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
