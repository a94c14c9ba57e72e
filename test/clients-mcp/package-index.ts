/** Tasks of an agent that need the package indexes: pip in a virtual environment, and npm. */

import assert from "node:assert/strict";
import type { Steps } from "../demo/steps.ts";
import { finish, startAgentSession } from "../support/mcp/agent-session.ts";
import { read, sandboxOf, type Agent } from "../support/mcp/agent.ts";

const TRUST = Object.fromEntries(
  ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"].flatMap(
    (name) => (process.env[name] === undefined ? [] : [[name, process.env[name] ?? ""]]),
  ),
);
/** Sandboxes reach the indexes as those of a user do, with what this machine trusts. */
const ONLINE = { SANDBOX_MCP_EGRESS: "on", SANDBOX_MCP_CA: "", ...TRUST };
const TASKS = [
  {
    name: "pip installs into a virtual environment",
    cmd:
      "python3 -m venv env && env/bin/pip install -q six==1.17.0 && " +
      "env/bin/python -c 'import six; print(six.__version__)'",
    shows: /^1\.17\.0$/m,
  },
  {
    name: "npm installs a dependency",
    cmd:
      "mkdir app && cd app && npm init -y >/dev/null && npm install --no-fund is-number@7.0.0 && " +
      'node -p \'require("is-number")("5")\'',
    shows: /^true$/m,
  },
];

/** One step for each, in a sandbox of a plain stdio server. */
export async function playIndexTasks(home: string, steps: Steps): Promise<void> {
  await using session = await startAgentSession(home, ONLINE);
  const { agent } = session;
  const sandbox = sandboxOf(await agent.do("create_sandbox", { timeout_seconds: 600 }));
  for (const { name, cmd, shows } of TASKS) {
    await steps.run(`package index: ${name}`, async () => {
      const output = await runToEnd(agent, sandbox, cmd);
      assert.match(output, /exit_code: 0 /);
      assert.match(output, shows);
    });
  }
}

async function runToEnd(agent: Agent, sandbox: object, cmd: string): Promise<string> {
  const wanted = { ...sandbox, cmd, wait_seconds: 50 };
  const replies = await finish(agent, await agent.do("run_process", wanted), sandbox);
  read(replies.at(-1) ?? "", /exit_code: (\d+)/);
  return replies.join("\n");
}
