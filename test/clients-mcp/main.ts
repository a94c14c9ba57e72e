/**
 * Foreign MCP clients do the main job on stdio and Streamable HTTP, the SDKs of three providers
 * convert the schemas of all tools, and an agent uses the package indexes from a sandbox:
 * `node test/clients-mcp/main.ts [NAME...]`. A name is the beginning of a client's, of `schemas` or
 * of `package index`; without names, all.
 */

import { createSteps } from "../demo/steps.ts";
import { openPackageFolder } from "../support/clients/registry-packages.ts";
import { openTestHome } from "../support/home.ts";
import { OFFLINE, PROGRAM } from "../support/program.ts";
import { startServe } from "../support/serve.ts";
import { obtainClients, obtainNode } from "./clients.ts";
import { startForeignClient, type Target } from "./foreign-client.ts";
import { playIndexTasks } from "./package-index.ts";
import { convertSchemas } from "./schemas.ts";
import { playStory } from "./story.ts";

const names = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = (name: string) =>
  names.length === 0 || names.some((start) => name.toLowerCase().startsWith(start));

const steps = createSteps();
await using folder = await openPackageFolder();
await using home = await openTestHome();
await using serve = await startServe(["--toolsets", "all", "--pool", "0"]);

const http: Target = {
  transport: "http",
  url: `${serve.url}/mcp`,
  headers: { Authorization: `Bearer ${serve.apiKey}` },
};
const targets: readonly Target[] = [
  {
    transport: "stdio",
    command: process.execPath,
    args: [PROGRAM, "stdio", "--toolsets", "all", "--pool", "0", "--home", home.path],
    env: { PATH: process.env["PATH"] ?? "", ...OFFLINE, SANDBOX_MCP_LOG_LEVEL: "warn" },
  },
  http,
];

if (isWanted("schemas")) {
  await convertSchemas(await obtainNode(folder.path, "convert.mjs"), { steps, target: http });
}
if (isWanted("package index")) await playIndexTasks(home.path, steps);
const isOther = (name: string) => !"schemas".startsWith(name) && !"package index".startsWith(name);
const isForClients = names.length === 0 || names.some(isOther);
const kinds = isForClients ? await obtainClients(folder.path) : [];
for (const kind of kinds.filter(({ name }) => isWanted(name))) {
  for (const target of targets) {
    const label = `${kind.name}, ${target.transport}`;
    await steps.run(`${label}: connects and ends`, async () => {
      await using client = await startForeignClient(kind.command(target), folder.path);
      await playStory(client, { kind, steps, label });
      return `protocol ${client.protocol}`;
    });
  }
}
process.exitCode = steps.report("foreign clients");
