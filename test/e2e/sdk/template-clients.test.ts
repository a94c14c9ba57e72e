/** Templates built from a Dockerfile by the public command line, by Python's client, and by ours. */

import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { findPythonClient } from "../../support/clients/python-client.ts";
import { useSdkServe } from "../../support/clients/sdk.ts";
import { PROGRAM } from "../../support/program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const CLI = resolve(import.meta.dirname, "../../../node_modules/@e2b/cli/dist/index.js");
const LIMIT_MS = 300_000;
/** `test/over-tls/main.ts` names the releases, the newest last. */
const named = (process.env["SDK_PYTHON"] ?? "").split(",").at(-1) ?? "";
const PYTHON = await findPythonClient(named === "" ? "2.63.0" : named);

const service = useSdkServe();

async function makeContext(lines: readonly string[]) {
  const folder = await makeTempFolder();
  await mkdir(join(folder.path, "app"));
  await writeFile(join(folder.path, "app/a.txt"), "content");
  await writeFile(join(folder.path, "app/b.log"), "log");
  await writeFile(join(folder.path, ".dockerignore"), "**/*.log\n");
  await writeFile(join(folder.path, "Dockerfile"), lines.join("\n"));
  return folder;
}

/** What a program prints; a failure is what it printed, too. */
async function run(program: string, words: readonly string[], folder: string) {
  const env = { ...service.environment, PATH: String(process.env["PATH"]), HOME: folder };
  return promisify(execFile)(program, [...words], { env, cwd: folder, timeout: LIMIT_MS }).then(
    ({ stdout, stderr }) => ({ code: 0, text: stdout + stderr, errors: stderr }),
    (error: { code?: number; stdout?: string; stderr?: string }) => ({
      code: error.code ?? -1,
      text: `${error.stdout}${error.stderr}`,
      errors: error.stderr ?? "",
    }),
  );
}

async function read(template: string, command: string): Promise<string> {
  const sandbox = await Sandbox.create(template, service.options);
  const { stdout } = await sandbox.commands.run(command);
  await sandbox.kill();
  return stdout.trim();
}

const DOCKERFILE = ["FROM e2bdev/base", "COPY app /srv/app", "RUN id -un > /srv/who"];

test("the public command line", { timeout: LIMIT_MS }, async () => {
  await using folder = await makeContext(DOCKERFILE);
  const { path } = folder;
  const made = await run(
    process.execPath,
    [CLI, "template", "create", "by-cli", "--cmd", "sleep 999", "--ready-cmd", "true"],
    path,
  );
  expect(made).toMatchObject({ code: 0 });
  expect(await read("by-cli", "cat /srv/who; ls /srv/app; pgrep -c sleep")).toBe("root\na.txt\n1");
  const listed = await run(process.execPath, [CLI, "template", "list"], path);
  expect(listed.text).toContain("by-cli");
});

test("our command line", { timeout: LIMIT_MS }, async () => {
  await using folder = await makeContext(DOCKERFILE);
  const { path } = folder;
  const home = ["--home", service.serve.home];
  const build = [PROGRAM, "template", "build", path, "--name", "by-us:v2", ...home];
  const made = await run(process.execPath, build, path);
  expect(made.text).toMatch(/template by-us:v2 is ready: /);
  expect(made.code).toBe(0);
  expect(await read("by-us:v2", "cat /srv/who; ls /srv/app; id -un")).toBe("root\na.txt\nuser");
  const again = await run(process.execPath, build, path);
  expect(again.text.split("\n").filter((line) => line.startsWith("["))).toEqual([]);
  const shown = await run(
    process.execPath,
    [PROGRAM, "template", "show", "by-us:v2", ...home],
    path,
  );
  expect(shown.text).toMatch(/^tags: v2$/m);
  await writeFile(join(path, "Dockerfile"), "FROM base\nRUN exit 3\n");
  const failed = await run(process.execPath, build, path);
  expect(failed).toMatchObject({ code: 1 });
  expect(failed.errors).toMatch(
    /^sandbox-mcp: template by-us:v2 was not built: step \d+ at line 2: command "exit 3" failed with exit code 3$/m,
  );
  await writeFile(join(path, "Dockerfile"), "FROM base\nRUN true\nONBUILD RUN true\n");
  const refused = await run(process.execPath, build, path);
  expect(refused.text).toContain("Dockerfile:3: ONBUILD is not supported");
});

const SCRIPT = `
from e2b import Template, Sandbox, BuildException
template = Template(file_context_path=".").from_template("base").set_envs({"A": "b"}).copy("app", "/srv/app").run_cmd("echo $A > /srv/a", user="root").set_start_cmd("sleep 999", "true")
Template.build(template, "by-python", cpu_count=1, memory_mb=256)
with Sandbox.create("by-python") as sandbox:
    print(sandbox.commands.run("cat /srv/a; ls /srv/app; pgrep -c sleep").stdout)
try:
    Template.build(Template().from_template("base").run_cmd("true").run_cmd("exit 5"), "broken-python")
except BuildException as error:
    import traceback
    print("failed:", error)
    print("".join(traceback.format_exception(error)))
`;

test.skipIf(PYTHON.python === undefined)(
  `Python's client ${PYTHON.reason}`,
  { timeout: LIMIT_MS },
  async () => {
    await using folder = await makeContext(DOCKERFILE);
    await writeFile(join(folder.path, "build.py"), SCRIPT);
    const made = await run(PYTHON.python ?? "", ["build.py"], folder.path);
    expect(made.text).toContain("b\na.txt\n1\n");
    expect(made.text).toContain('failed: command "exit 5" failed with exit code 5');
  },
);
