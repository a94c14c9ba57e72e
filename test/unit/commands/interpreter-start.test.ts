/** The start command of the code interpreter: as root where sudo gives rights, else as the user. */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { interpreterTemplate } from "../../../src/commands/templates/interpreter-build.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const SERVER = "PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 /run/sandbox-mcp/interpreter/server.py";

test.for([
  { name: "rights", sudo: '[ "$2" = true ] || echo "sudo $*"', expected: `sudo -n -E ${SERVER}` },
  { name: "no rights", sudo: "exit 1", expected: `env ${SERVER}` },
])("sudo that gives $name", async ({ sudo, expected }) => {
  await using folder = await makeTempFolder();
  const programs = { sudo, env: 'echo "env $*"' };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(folder.path, name), `#!/bin/bash\n${text}\n`, { mode: 0o755 });
  }
  const { setup } = interpreterTemplate(folder.path, async () => undefined);
  const environment = { PATH: folder.path };
  const { stdout } = await run("/bin/bash", ["-c", setup?.startCommand ?? ""], {
    env: environment,
  });
  expect(stdout).toBe(`${expected}\n`);
});
