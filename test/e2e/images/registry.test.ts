/** Images of a registry become templates: with and without login, of several platforms, by a mirror. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PLAN_VARIABLE, type StepPlan } from "../../support/faults/step-listener.ts";
import { writeLayout, writePlatforms, type WrittenImage } from "../../support/images/oci-layout.ts";
import { pullImage } from "../../support/images/pull-image.ts";
import { startRegistry, type Registry } from "../../support/images/registry.ts";
import { alpineLayer, debianLayer } from "../../support/images/test-images.ts";
import { hasSetId } from "../../support/level.ts";
import { openOrdinaryUser } from "../../support/ordinary-user.ts";
import { listeningUrl, PROGRAM, startProgram, type TestProgram } from "../../support/program.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

/** `tester` with the password `secret`. */
const LOGIN = "tester:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

const LISTENER = resolve(import.meta.dirname, "../../support/faults/step-listener.ts");
const run = promisify(execFile);
let folder: TempFolder;
let open: Registry;
let closed: Registry;
/** A service in a home without base: a template of an image needs none. */
let serve: { readonly home: string; readonly url: string; readonly program: TestProgram };
const apiKey = `e2b_${randomBytes(20).toString("hex")}`;
const images: Record<string, WrittenImage> = {};

async function push(name: string, host: string, login: readonly string[] = []): Promise<void> {
  const source = `oci:${images[name]?.layout}`;
  const words = ["copy", "--all", "--dest-tls-verify=false", ...login];
  await run("skopeo", [...words, source, `docker://${host}/team/${name}:1`], {
    env: { PATH: process.env["PATH"], HOME: folder.path },
  });
}

async function makeImage(name: string, layer: Buffer, config: Record<string, unknown> = {}) {
  images[name] = await writeLayout(join(folder.path, name), { layers: [layer], config });
}

/** Runs `template` with these words in the home of the service. */
async function template(words: readonly string[], environment: Record<string, string> = {}) {
  await using program = startProgram(["template", ...words, "--home", serve.home], environment);
  const stdout = await text(program.stdout);
  return { code: await program.exited(), stdout, stderr: program.stderr() };
}

async function withSandbox<T>(name: string, work: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  const { url } = serve;
  const sandbox = await Sandbox.create(name, { apiKey, apiUrl: url, sandboxUrl: url });
  try {
    return await work(sandbox);
  } finally {
    await sandbox.kill();
  }
}

async function imageLayers(): Promise<string[]> {
  const names = await readdir(join(serve.home, "layers"));
  return names.filter((name) => name.startsWith("image-"));
}

beforeAll(async () => {
  folder = await makeTempFolder();
  open = await startRegistry({ directory: join(folder.path, "open") });
  closed = await startRegistry({ directory: join(folder.path, "closed"), login: LOGIN });
  const alpine = await alpineLayer();
  await makeImage("alpine", alpine, {
    Env: ["PATH=/opt/language/bin:/usr/bin:/bin", "GREETING=of the image"],
    WorkingDir: "/opt/work",
    ExposedPorts: { "8080/tcp": {}, "53/udp": {} },
    Entrypoint: ["/bin/sh"],
  });
  await makeImage("debian", await debianLayer(), { User: "1000:1000" });
  await makeImage("killed", alpine, { Env: ["KILLED=yes"] });
  images["many"] = await writePlatforms(join(folder.path, "many"), alpine);
  for (const name of ["alpine", "debian", "many"]) await push(name, open.host);
  await push("debian", closed.host, ["--dest-creds", "tester:secret"]);
  const home = await mkdtemp(join(tmpdir(), "smcp-"));
  const words = ["serve", "--port", "0", "--pool", "0", "--allow-host-template", "--home", home];
  const program = startProgram(words, { SANDBOX_MCP_API_KEY: apiKey });
  serve = { home, program, url: await listeningUrl(program) };
});

afterAll(async () => {
  await serve.program[Symbol.asyncDispose]();
  await rm(serve.home, { recursive: true, force: true });
  await open[Symbol.asyncDispose]();
  await closed[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

test("an ordinary user, who cannot read the home directory of root, pulls an image", async () => {
  await using user = await openOrdinaryUser({ ids: true });
  const words = ["template", "pull", `${open.host}/team/alpine:1`, "--name", "own"];
  await using program = startProgram(words, { HOME: user.home }, user.program);
  expect({ code: await program.exited(), stderr: program.stderr() }).toMatchObject({ code: 0 });
});

test("an image of the family of Alpine is given what it lacks, and runs", async () => {
  const pulled = await template(["pull", `${open.host}/team/alpine:1`]);
  expect(pulled).toMatchObject({ code: 0, stderr: "" });
  expect(pulled.stdout).toContain("bash, sudo, ca-certificates");
  expect(pulled.stdout).toContain(`is ${open.host}/team/alpine@sha256:`);
  await withSandbox("alpine", async ({ commands }) => {
    const say = async (line: string) => (await commands.run(line)).stdout.trim();
    expect(await say("id -un; pwd; echo $GREETING")).toBe("user\n/opt/work\nof the image");
    expect(await say('echo "${BASH_VERSION:+yes}"; a=(1 2 3); echo ${#a[@]}')).toBe("yes\n3");
    const uid = hasSetId ? "0" : await say("id -u");
    expect(await say("sudo id -u; sudo A=b env | grep ^A=")).toBe(`${uid}\nA=b`);
    expect(await say("sudo -u user id -un 2>/dev/null || true")).toBe(hasSetId ? "user" : "");
    expect(await say("sudo sh -c 'id -u; echo $HOME'")).toBe(`${uid}\n/root`);
    expect(await say("grep -c BEGIN /etc/ssl/certs/ca-certificates.crt")).toMatch(/^[1-9][0-9]+$/);
    // A login shell finds the programs of the image, though its profile sets PATH anew.
    const path = /^\/opt\/language\/bin:\/usr\/bin:\/bin:.*\/usr\/local\/bin/;
    expect(await say("echo $PATH")).toMatch(path);
    expect(await say("/lib/ld-musl-* 2>&1 | sed -n 1p")).toContain("musl");
    expect((await commands.run("id -u", { user: "root" })).stdout).toBe("0\n");
  });
});

test("an image of the family of Debian keeps its accounts and its user", async () => {
  const pulled = await template([
    "pull",
    `docker://${open.host}/team/debian:1`,
    "--name",
    "mine:v1",
  ]);
  expect(pulled).toMatchObject({ code: 0, stderr: "" });
  expect(pulled.stdout).toContain("given, since the image has none: sudo\n");
  await withSandbox("mine:v1", async ({ commands, files }) => {
    const say = async (line: string, user = "node") =>
      (await commands.run(line, { user })).stdout.trim();
    expect((await commands.run("id -un; pwd")).stdout).toBe("node\n/home/node\n");
    expect(await say("id -u; id -Gn", "user")).toBe("1001\nuser sudo");
    expect(await say("sudo id -u", "user")).toBe(hasSetId ? "0" : "1001");
    await expect(commands.run("sudo id -u", { user: "node" })).rejects.toThrow(/126|denied/);
    expect(await files.read("/etc/ssl/certs/ca-certificates.crt")).toBe("of the image\n");
  });
});

test("of an image of several platforms it is this machine's", async () => {
  expect(await template(["pull", `${open.host}/team/many:1`])).toMatchObject({ code: 0 });
  const shown = await template(["show", "many"]);
  expect(shown.stdout).toContain("environment: PLATFORM=own\n");
  const list = await template(["list"]);
  expect(list.stdout).toMatch(/^local\/many {2}\w+ {2}template {2}/m);
});

test("a registry with a login refuses without it, and reads the file of docker", async () => {
  const reference = `${closed.host}/team/debian:1`;
  const refused = await template(["pull", reference, "--name", "secret"]);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain("refuses this login");
  const home = join(folder.path, "person");
  await mkdir(join(home, ".docker"), { recursive: true });
  const config = join(home, ".docker/config.json");
  // As docker leaves it where a program keeps its logins.
  const emptied = { auths: { [closed.host]: {} }, credsStore: "desktop" };
  await writeFile(config, JSON.stringify(emptied));
  const elsewhere = await template(["pull", reference, "--name", "secret"], { HOME: home });
  expect(elsewhere.stderr).toMatch(
    /refuses this login.*: docker keeps its login in the program of/,
  );
  const auth = Buffer.from("tester:secret").toString("base64");
  const login = JSON.stringify({ auths: { [closed.host]: { auth } } });
  await writeFile(config, login);
  expect(await template(["pull", reference, "--name", "secret"], { HOME: home })).toMatchObject({
    code: 0,
  });
});

test("credentials of a request reach the registry, and no file keeps them", async () => {
  const home = await mkdtemp(join(tmpdir(), "smcp-"));
  const signal = AbortSignal.timeout(60_000);
  const reference = `${closed.host}/team/debian:1`;
  const credentials = { username: "tester", password: "secret" };
  const image = await pullImage(reference, { home, signal, credentials });
  expect(image.pinned).toMatch(/\/team\/debian@sha256:[0-9a-f]{64}$/);
  const auth = Buffer.from("tester:secret").toString("base64");
  await expect(run("grep", ["-rlF", "-e", auth, "-e", "secret", home])).rejects.toMatchObject({
    code: 1,
  });
  await image[Symbol.asyncDispose]();
  const wrong = pullImage(reference, {
    home,
    signal,
    credentials: { ...credentials, password: "hidden-word" },
  });
  await expect(wrong).rejects.toMatchObject({ code: "permission_denied" });
  await expect(wrong).rejects.not.toThrow(/hidden-word/);
  const file = pullImage(`oci:${images["debian"]?.layout}`, { home, signal });
  await expect(file).rejects.toMatchObject({ code: "invalid_argument" });
  await rm(home, { recursive: true });
});

test("a mirror stands in for a registry", async () => {
  const flags = ["--registry-mirror", `docker.io/library=${open.host}/team`, "--name", "mirrored"];
  const pulled = await template(["pull", "alpine:1", ...flags]);
  expect(pulled).toMatchObject({ code: 0, stderr: "" });
  expect(pulled.stdout).toContain("the image is there already");
  expect(pulled.stdout).toContain("is docker.io/library/alpine@sha256:");
});

test("what is exported runs elsewhere: skopeo and this program read it", async () => {
  await template(["pull", `${open.host}/team/debian:1`, "--name", "mine:v1"]);
  const file = join(folder.path, "mine.oci");
  expect(await template(["export", "mine:v1", file])).toMatchObject({ code: 0, stderr: "" });
  const { stdout } = await run("skopeo", ["inspect", `oci-archive:${file}`]);
  expect(JSON.parse(stdout)).toMatchObject({ Os: "linux", Layers: [expect.any(String)] });
  expect(await template(["import", file, "--name", "again"])).toMatchObject({
    code: 0,
    stderr: "",
  });
  await withSandbox("again", async ({ commands }) => {
    const said = await commands.run("id -un; sudo -n id -u", { user: "user" });
    expect(said.stdout).toBe(`user\n${hasSetId ? "0" : "1001"}\n`);
  });
});

test("an exported template keeps its commands, its size and its directory", async () => {
  const setup = { startCommand: "echo started > ~/start", readyCommand: "", memoryMb: 256 };
  const Labels = { "sandbox-mcp.setup": JSON.stringify({ ...setup, workdir: "/" }) };
  await makeImage("serving", await debianLayer(), { WorkingDir: "/", Labels });
  const layout = images["serving"]?.layout;
  expect(await template(["pull", `oci:${layout}`])).toMatchObject({ code: 0, stderr: "" });
  const file = join(folder.path, "serving.oci");
  expect(await template(["export", "serving", file])).toMatchObject({ code: 0, stderr: "" });
  const imported = await template(["import", file, "--name", "served"]);
  expect(imported).toMatchObject({ code: 0, stderr: "" });
  expect(imported.stdout).toContain('start command: "echo started > ~/start"\n');
  expect((await template(["show", "served"])).stdout).toMatch(/^size: [0-9]+ CPU, 256 MB$/m);
  await withSandbox("served", async ({ commands }) => {
    const wait = "until test -s ~/start; do sleep 0.1; done";
    const said = await commands.run(`pwd; id -un; ${wait}; cat ~/start`);
    expect(said.stdout).toBe("/\nuser\nstarted\n");
  });
});

test("a template that is removed takes its layer with it, unless another one has it", async () => {
  await template(["pull", `${open.host}/team/many:1`, "--name", "one"]);
  await template(["pull", `${open.host}/team/many:1`, "--name", "two"]);
  for (const name of ["many", "one"]) await template(["remove", name]);
  const before = await imageLayers();
  expect(await template(["remove", "two"])).toMatchObject({
    code: 0,
    stdout: "removed local/two\n",
  });
  expect((await imageLayers()).length).toBe(before.length - 1);
  expect((await template(["show", "two"])).code).not.toBe(0);
});

test.for(["layer.begun", "layer.synced", "layer.renamed", "layer.durable"] as const)(
  "a pull that is killed after %s leaves nothing after the next clean-up",
  async (step) => {
    const layers = join(serve.home, "layers");
    const before = (await readdir(layers)).toSorted();
    const plan = join(folder.path, step);
    const planned: StepPlan = { step, action: "kill" };
    await writeFile(plan, JSON.stringify(planned));
    const words = ["template", "pull", `oci:${images["killed"]?.layout}`, "--home", serve.home];
    const command = [process.execPath, "--import", LISTENER, PROGRAM] as const;
    await using program = startProgram(words, { [PLAN_VARIABLE]: plan }, [...command]);
    expect(await program.exited()).toBe("SIGKILL");
    expect((await readdir(layers)).length).toBeGreaterThan(before.length);
    await using gc = startProgram(["gc", "--home", serve.home]);
    expect(await gc.exited()).toBe(0);
    expect((await readdir(layers)).toSorted()).toEqual(before);
    expect((await template(["list"])).stdout).not.toContain("killed");
  },
);

test("an archive with a damaged setup is refused", async () => {
  const Labels = { "sandbox-mcp.setup": '{"memoryMb":1e9}' };
  await makeImage("damaged", await debianLayer(), { Labels });
  const pulled = await template(["pull", `oci:${images["damaged"]?.layout}`]);
  expect(pulled.code).toBe(78);
  expect(pulled.stderr).toContain("the image is not valid: its label sandbox-mcp.setup: memoryMb ");
  expect((await template(["list"])).stdout).not.toContain("damaged");
});
