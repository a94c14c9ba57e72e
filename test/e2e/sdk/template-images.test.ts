/** Templates that unmodified clients build from images of a registry: open, with a login, an index. */

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findPythonClient } from "../../support/clients/python-client.ts";
import { newestSdk, useSdkServe } from "../../support/clients/sdk.ts";
import { makeTestImages } from "../../support/images/image-service.ts";
import { writePlatforms } from "../../support/images/oci-layout.ts";
import { startRegistry } from "../../support/images/registry.ts";
import { alpineLayer } from "../../support/images/test-images.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const { Sandbox, Template } = newestSdk;
const CLI = resolve(import.meta.dirname, "../../../node_modules/@e2b/cli/dist/index.js");
const LIMIT_MS = 300_000;
const PASSWORD = "secret";
const LOGIN = "tester:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
/** `test/over-tls/main.ts` names the releases, the newest last. */
const named = (process.env["SDK_PYTHON"] ?? "").split(",").at(-1) ?? "";
const PYTHON = await findPythonClient(named === "" ? "2.63.0" : named);

const stack = new AsyncDisposableStack();
const { path: folder } = stack.use(await makeTempFolder());
const open = stack.use(await startRegistry({ directory: join(folder, "open") }));
const closed = stack.use(await startRegistry({ directory: join(folder, "closed"), login: LOGIN }));
const rules = { "open.example": open, "closed.example": closed };
const mirrors = Object.entries(rules).map(([from, { host }]) => `${from}=http://${host}`);

beforeAll(async () => {
  const images = stack.use(await makeTestImages(["alpine"]));
  await writePlatforms(join(images.path, "many"), await alpineLayer());
  await images.push("alpine", open);
  await images.push("many", open);
  await images.push("alpine", closed, `tester:${PASSWORD}`);
}, LIMIT_MS);

const service = useSdkServe(["--registry-mirror", mirrors.join(",")]);

afterAll(() => stack.disposeAsync());

async function read(template: string): Promise<string> {
  const sandbox = await Sandbox.create(template, service.options);
  try {
    const command = "cat /etc/os-release; ls /lib | grep -o ld-musl; echo $IMAGE$PLATFORM; id -un";
    return (await sandbox.commands.run(command)).stdout;
  } finally {
    await sandbox.kill();
  }
}

async function buildClosed(login?: { username: string; password: string }): Promise<void> {
  const image = Template().fromImage("closed.example/team/alpine:1", login);
  await Template.build(image, "closed", service.options);
}

/** What a program prints, in a folder of its own. */
async function run(program: string, words: readonly string[], cwd: string): Promise<string> {
  const env = { ...service.environment, PATH: String(process.env["PATH"]), HOME: cwd };
  const { stdout } = await promisify(execFile)(program, [...words], { env, cwd });
  return stdout;
}

test("the JavaScript client: an image of the family of Alpine", { timeout: LIMIT_MS }, async () => {
  const image = Template().fromImage("open.example/team/alpine:1").runCmd("id -un > /tmp/who");
  await Template.build(image, "by-js", service.options);
  expect(await read("by-js")).toBe("ID=alpine\nld-musl\nalpine\nuser\n");
});

test(
  "the JavaScript client: an index, of which it is this machine's",
  async () => {
    const image = Template().fromImage("open.example/team/many:1");
    await Template.build(image, "many", service.options);
    expect(await read("many")).toBe("ID=alpine\nld-musl\nown\nuser\n");
  },
  LIMIT_MS,
);

test("the JavaScript client: a registry with a login", { timeout: LIMIT_MS }, async () => {
  await expect(buildClosed()).rejects.toThrow(/refuses this login/);
  await expect(buildClosed({ username: "tester", password: "wrong" })).rejects.toThrow(
    /refuses this login/,
  );
  await buildClosed({ username: "tester", password: PASSWORD });
  expect(await read("closed")).toBe("ID=alpine\nld-musl\nalpine\nuser\n");
});

test(
  "the public command line: a Dockerfile that begins with an image",
  async () => {
    await using place = await makeTempFolder();
    const dockerfile = "FROM open.example/team/alpine:1\nENV PLATFORM=-cli\n";
    await writeFile(join(place.path, "Dockerfile"), dockerfile);
    await run(process.execPath, [CLI, "template", "create", "by-cli"], place.path);
    expect(await read("by-cli")).toBe("ID=alpine\nld-musl\nalpine-cli\nuser\n");
    expect(await run(process.execPath, [CLI, "template", "list"], place.path)).toContain("by-cli");
  },
  LIMIT_MS,
);

const SCRIPT = `
from e2b import Template
Template.build(Template().from_image("open.example/team/many:1"), "by-python")
Template.build(Template().from_image("closed.example/team/alpine:1", username="tester", password="${PASSWORD}"), "closed-python")
`;

test.skipIf(PYTHON.python === undefined)(
  `Python's client ${PYTHON.reason}: an index, and a registry with a login`,
  { timeout: LIMIT_MS },
  async () => {
    await using place = await makeTempFolder();
    await writeFile(join(place.path, "build.py"), SCRIPT);
    await run(PYTHON.python ?? "", ["build.py"], place.path);
    expect(await read("by-python")).toBe("ID=alpine\nld-musl\nown\nuser\n");
    expect(await read("closed-python")).toBe("ID=alpine\nld-musl\nalpine\nuser\n");
  },
);
