/** Projects of an agent: an environment, a package, a build and a page, without any network. */

import { gunzipSync } from "node:zlib";
import { Agent as Dispatcher, fetch as fetchWith } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestHome, type TestHome } from "../support/home.ts";
import { isGvisor } from "../support/level.ts";
import { finish, startAgentSession } from "../support/mcp/agent-session.ts";
import { read, sandboxOf } from "../support/mcp/agent.ts";

const LOOPBACK = "127.0.0.1";

/** Packs the one module; what others fetch from an index is not needed. */
const PYTHON_BACKEND = `import zipfile


def build_wheel(directory, config=None, metadata=None):
    name = "greeter-1.0-py3-none-any.whl"
    facts = "greeter-1.0.dist-info/"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.write("greeter.py")
        wheel.writestr(facts + "METADATA", "Metadata-Version: 2.1\\nName: greeter\\nVersion: 1.0\\n")
        tag = "Root-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(facts + "WHEEL", "Wheel-Version: 1.0\\nGenerator: hand\\n" + tag)
        wheel.writestr(facts + "RECORD", "")
    return name
`;

let home: TestHome;

beforeAll(async () => {
  home = await openTestHome();
});
afterAll(() => home[Symbol.asyncDispose]());

const startAgent = async () => startAgentSession(home.path);

test("a page is served and fetched by its URL, a file is handed out, in plain stdio", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  await agent.do("write_file", { ...sandbox, path: "site/page.html", content: "hello" });
  const server = { cmd: "python3 -m http.server 8000", cwd: "/home/user/site", wait_seconds: 0 };
  await agent.do("run_process", { ...sandbox, ...server });
  const told = await agent.do("get_sandbox_url", { ...sandbox, port: 8_000 });
  const url = new URL(read(told, /^url: (\S+)$/m));
  // As browsers answer names below localhost.
  const byName = new Dispatcher({
    connect: { lookup: (_name, _options, done) => done(null, [{ address: LOOPBACK, family: 4 }]) },
  });
  const page = async () => {
    const reply = await fetchWith(new URL("page.html", url), { dispatcher: byName });
    return [reply.status, await reply.text()];
  };
  await expect.poll(page).toEqual([200, "hello"]);
  await byName.close();
  await agent.do("run_process", { ...sandbox, cmd: "tar czf site.tgz site" });
  const link = read(await agent.do("download_url", { ...sandbox, path: "site.tgz" }), /url: (\S+)/);
  const bytes = Buffer.from(await (await fetch(link)).arrayBuffer());
  expect(gunzipSync(bytes).includes("hello")).toBe(true);
});

test("a Python project gets a virtual environment, and its package works", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const files = {
    "pyproject.toml":
      '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n\n' +
      '[project]\nname = "greeter"\nversion = "1.0"\n',
    "backend.py": PYTHON_BACKEND,
    "greeter.py": 'def greet(name):\n    return f"hello {name}"\n',
  };
  for (const [name, content] of Object.entries(files)) {
    await agent.do("write_file", { ...sandbox, path: `greeter/${name}`, content });
  }
  const shell = { ...sandbox, wait_seconds: 50 };
  const install = "python3 -m venv env && env/bin/pip install --no-index ./greeter";
  const installing = await agent.do("run_process", { ...shell, cmd: install });
  const installed = (await finish(agent, installing, sandbox)).at(-1) ?? "";
  expect(installed).toMatch(/^exit_code: 0 /);
  const cmd = "env/bin/python -c 'import greeter; print(greeter.greet(\"you\"))'";
  expect(await agent.do("run_process", { ...shell, cmd })).toContain("\nhello you\n");
});

test("a node project installs its dependency, and its failing test is fixed", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const files = {
    "double/package.json": '{"name":"double","version":"1.0.0","main":"index.js"}',
    "double/index.js": "module.exports = (number) => number * 3;\n",
    "app/package.json":
      '{"private":true,"scripts":{"test":"node --test"},"dependencies":{"double":"file:../double"}}',
    "app/double.test.js":
      'const test = require("node:test");\n' +
      'test("doubles", () => require("node:assert").equal(require("double")(2), 4));\n',
  };
  for (const [path, content] of Object.entries(files)) {
    await agent.do("write_file", { ...sandbox, path, content });
  }
  const shell = { ...sandbox, cwd: "/home/user/app", wait_seconds: 50 };
  const install = "npm install --offline --no-audit --no-fund";
  const installed = await agent.do("run_process", { ...shell, cmd: install });
  expect(installed).toMatch(/^exit_code: 0 /);
  const failed = await agent.do("run_process", { ...shell, cmd: "npm test" });
  expect([read(failed, /exit_code: (\d+)/), failed]).toEqual([
    "1",
    expect.stringMatching(/6 (!==|==) 4/),
  ]);
  const edit = { path: "double/index.js", old_string: "* 3", new_string: "* 2" };
  await agent.do("edit_file", { ...sandbox, ...edit });
  const passed = await agent.do("run_process", { ...shell, cmd: "npm test" });
  expect(passed).toMatch(/^exit_code: 0 /);
});

/** The host ends the kernel of gVisor as a rule, and then the sandbox. */
test.skipIf(!isGvisor)("a program that takes too much memory is told as that", async () => {
  await using started = await startAgent();
  const { agent } = started;
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  const large = { ...sandbox, cmd: "python3 -c 'b\"x\" * (900 << 20)'" };
  expect(await agent.do("run_process", large).catch(String)).toMatch(/out of memory|exit_code: 1 /);
});

test.skipIf(isGvisor)(
  "a build out of memory is explained by its reply alone, and done in a smaller way",
  async () => {
    await using started = await startAgent();
    const { agent } = started;
    const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
    const makefile = "SIZE = 900\nall:\n\tpython3 -c 'print(len(b\"x\" * ($(SIZE) << 20)))'\n";
    await agent.do("write_file", { ...sandbox, path: "Makefile", content: makefile });
    const failed = await agent.do("run_process", { ...sandbox, cmd: "make" });
    expect(failed).toMatch(/^exit_code: 2 /);
    const limit = Number(read(failed, /out of memory: the sandbox has (\d+) MB in all/));
    const smaller = await agent.do("run_process", { ...sandbox, cmd: `make SIZE=${limit / 4}` });
    expect(read(smaller, /exit_code: (\d+)/)).toBe("0");
    const direct = "python3 -c 'b\"x\" * (900 << 20)'";
    const killed = await agent.do("run_process", { ...sandbox, cmd: direct });
    expect(killed).toMatch(/^exit_code: .* killed, and not by this server: out of memory: /);
  },
);

test.skipIf(isGvisor)(
  "a kill by somebody else is not told as an end by memory, also after such an end",
  async () => {
    await using started = await startAgent();
    const { agent } = started;
    const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
    const kill = { ...sandbox, cmd: "kill -9 $$" };
    const other = "killed by SIGKILL, which this server did not send; not for lack of memory";
    expect(await agent.do("run_process", kill)).toContain(other);
    const child = { ...sandbox, cmd: "sh -c 'kill -9 $$'; echo Killed; exit 1" };
    expect(await agent.do("run_process", child)).not.toContain("memory");
    await agent.do("run_process", { ...sandbox, cmd: "python3 -c 'b\"x\" * (900 << 20)'" });
    // A sample after it: what is counted before the start of a process is no cause of its end.
    const metrics = async () => agent.do("get_metrics", sandbox);
    const before = read(await metrics(), /^samples: (\d+)$/m);
    await expect
      .poll(async () => read(await metrics(), /^samples: (\d+)$/m), { timeout: 20_000 })
      .not.toBe(before);
    expect(await agent.do("run_process", kill)).toContain(other);
  },
);
