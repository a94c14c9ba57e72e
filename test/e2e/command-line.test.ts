/** The built program on a command line: its output, its errors, and what it leaves. */

import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { canShareUsr } from "../../src/engine/host/id-maps.ts";
import { openStore } from "../../src/store/sqlite.ts";
import { openImageDisk } from "../support/faults/image-disk.ts";
import { openTestHome } from "../support/home.ts";
import { listenOnLoopback } from "../support/loopback.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { listeningUrl, PROGRAM, startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const MIB = 1024 ** 2;
const POLL = { timeout: 60_000, interval: 10 };

test("a faulty command line is answered with lines and code 64, and makes nothing", async () => {
  await using folder = await makeTempFolder();
  const environment = { PATH: process.env["PATH"], HOME: folder.path };
  const run = promisify(execFile)(process.execPath, [PROGRAM, "--home", "--json", "doctor"], {
    cwd: folder.path,
    env: environment,
  });
  await expect(run).rejects.toMatchObject({
    code: 64,
    stdout: "",
    stderr:
      "sandbox-mcp: --home: needs a value; one that begins with a dash is written --home=VALUE\n",
  });
  expect(await readdir(folder.path)).toEqual([]);
});

test.for(["~/home", "$HOME/home"])(
  "a home %s that no shell has seen makes nothing",
  async (home) => {
    await using folder = await makeTempFolder();
    for (const [words, environment, name, code] of [
      [[`--home=${home}`], {}, "--home", 64],
      [[], { SANDBOX_MCP_HOME: home }, "SANDBOX_MCP_HOME", 78],
    ] as const) {
      const said = spawnSync(process.execPath, [PROGRAM, "key", "list", ...words], {
        cwd: folder.path,
        env: { PATH: process.env["PATH"], HOME: folder.path, ...environment },
        encoding: "utf8",
      });
      expect([said.status, said.stderr]).toEqual([
        code,
        expect.stringMatching(`^sandbox-mcp: ${name}: expected a path without ~`),
      ]);
    }
    expect(await readdir(folder.path)).toEqual([]);
  },
);

test("a variable that is no setting is reported once, and ends nothing", async () => {
  await using folder = await makeTempFolder();
  const environment = { SANDBOX_MCP_REQUIRE_ISOLATON: "gvisor" };
  await using program = startProgram(["key", "list", "--home", folder.path], environment);
  expect([await program.exited(), program.stderr()]).toEqual([
    0,
    "sandbox-mcp: SANDBOX_MCP_REQUIRE_ISOLATON: no such setting, it is not used\n",
  ]);
});

test("a reader that stops reading ends nothing, a full disk is reported", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await mkdir(home);
  const run = (script: string) =>
    spawnSync("sh", ["-c", script, "sh", process.execPath, PROGRAM, home], { encoding: "utf8" });
  const cut = run('{ "$1" "$2" manifest --home "$3"; echo "code $?" >&2; } | head -1');
  expect([cut.stdout, cut.stderr]).toEqual(["{\n", "code 0\n"]);
  const full = run('"$1" "$2" manifest --home "$3" > /dev/full');
  expect([full.status, full.stderr]).toEqual([
    74,
    "sandbox-mcp: standard output cannot be written: ENOSPC: no space left on device, write\n",
  ]);
  const silent = run('"$1" "$2" no-command --home "$3" 2> /dev/full');
  expect([silent.status, silent.stdout]).toEqual([64, ""]);
  const closed = run('"$1" "$2" --version --home "$3" <&- >&- 2>&-');
  expect(closed.status).toBe(0);
});

test("a build whose mirror does not answer says where its answer is", async () => {
  await using home = await openTestHome();
  await using folder = await makeTempFolder();
  await writeFile(join(folder.path, "Dockerfile"), "FROM alpine:3\n");
  const rule = "docker.io=http://127.0.0.1:1/mirror";
  const words = ["build", folder.path, "--name=t", "--registry-mirror", rule, "--home", home.path];
  await using program = startProgram(["template", ...words]);
  expect(await program.exited()).toBe(1);
  expect(program.stderr()).toBe(
    "sandbox-mcp: template t was not built: step base: the image was not fetched: " +
      "the service's mirror of its registry did not send it: " +
      "with --log-level info the log has what the mirror answered\n",
  );
});

test("no template is made on a disk that has less than is kept free", async () => {
  await using disk = await openImageDisk(256 * MIB, ["mkfs.ext4", "-q", "-F"]);
  await using folder = await makeTempFolder();
  const archive = join(folder.path, "image.tar");
  await promisify(execFile)("tar", ["-cf", archive, "-C", "/etc", "passwd"]);
  for (const words of [
    ["pull", "base"],
    ["pull", "code-interpreter"],
    ["pull", "docker.io/library/none:1"],
    ["import", archive],
  ]) {
    await using program = startProgram(["template", ...words, "--home", disk.path]);
    expect([words, await program.exited(), program.stderr()]).toEqual([
      words,
      expect.any(Number),
      expect.stringMatching(/disk of \S+ has \d+ MiB left of the 1024 MiB that are kept free/),
    ]);
  }
  expect(await readdir(join(disk.path, "layers"))).toEqual([]);
});

test("a store that the disk of the home cannot take names its flag", async () => {
  // Files of an ext4 end at 16 TiB.
  await using disk = await openImageDisk(256 * MIB, ["mkfs.ext4", "-q", "-F"]);
  await using program = startProgram(["serve", "--store-gb=999999", "--home", disk.path]);
  expect([await program.exited(), program.stderr()]).toEqual([
    78,
    expect.stringMatching(/^sandbox-mcp: store was not made: EFBIG: .*a smaller --store-gb$/m),
  ]);
});

/** The lists of this system's authorities, empty and for this process alone. */
const OWN_LISTS = `
mount -t tmpfs none /usr/local/share/ca-certificates && mount -t tmpfs none /etc/ssl/certs &&
exec "$@"
`;

test.skipIf(!existsSync("/usr/sbin/update-ca-certificates"))(
  "trust removes nothing where nothing was, and says so, whether the home is there or not",
  async () => {
    await using folder = await makeTempFolder();
    const inside = ["-m", "--propagation", "private", "sh", "-c", OWN_LISTS, "sh"];
    for (const home of [folder.path, join(folder.path, "gone")]) {
      const words = [process.execPath, PROGRAM, "trust", "remove", "--home", home];
      const { stdout } = spawnSync("unshare", [...inside, ...words], { encoding: "utf8" });
      expect(stdout).toBe(
        "/usr/local/share/ca-certificates/sandbox-mcp-sandbox.localhost.crt was not there\n",
      );
    }
    expect(await readdir(folder.path)).not.toContain("gone");
  },
);

test.skipIf(!existsSync("/usr/sbin/update-ca-certificates"))(
  "an ordinary user's trust names commands with which root does it",
  async () => {
    await using user = await openOrdinaryUser({ ids: false });
    const place = "/usr/local/share/ca-certificates";
    const hints: string[] = [];
    for (const action of ["remove", "install"]) {
      const words = ["trust", action, "--home", user.data];
      await using program = startProgram(words, {}, user.program);
      expect(await program.exited()).toBe(69);
      hints.push(/EACCES: .*: run as root: (.*)\n$/.exec(program.stderr())?.[1] ?? "none");
    }
    const [remove, install] = hints;
    const refresh = "update-ca-certificates --fresh";
    expect(remove).toBe(`rm -f ${place}/sandbox-mcp-sandbox.localhost.crt && ${refresh}`);
    const inside = ["-m", "--propagation", "private", "sh", "-c", OWN_LISTS, "sh"];
    const typed = ["sh", "-c", `${install} >&2 && ls ${place}`];
    const { stdout } = spawnSync("unshare", [...inside, ...typed], { encoding: "utf8" });
    expect(stdout).toBe("sandbox-mcp-sandbox.localhost.crt\n");
  },
);

test("doctor finds a machine not usable whose services refuse the configuration", async () => {
  await using folder = await makeTempFolder();
  const words = ["doctor", "--egress", "/nonexistent/netns", "--home", folder.path];
  const said = spawnSync(process.execPath, [PROGRAM, ...words], { encoding: "utf8" });
  expect([said.status, said.stdout]).toEqual([
    69,
    expect.stringMatching(/^missing {2}sandbox: --egress \/nonexistent\/netns: .*\nnot usable\n$/m),
  ]);
});

test.for(["crun", "runc"])(
  "doctor finds %s usable in a home that is not there yet",
  async (name) => {
    await using folder = await makeTempFolder();
    // crun reads a colon in the path of its log as the end of a kind of log.
    const parent = join(folder.path, "a:b");
    await mkdir(parent);
    const words = ["doctor", "--runtime", name, "--home", join(parent, "new")];
    await using program = startProgram(words);
    const output = text(program.stdout);
    expect([await program.exited(), await output]).toEqual([
      0,
      expect.stringMatching(/^usable: /m),
    ]);
    expect(await output).not.toContain("runtime failed");
  },
);

test("doctor tells of a home that leads nowhere by its path, not by a runtime", async () => {
  await using folder = await makeTempFolder();
  const home = join(folder.path, "home");
  await symlink(join(folder.path, "gone"), home);
  const said = spawnSync(process.execPath, [PROGRAM, "doctor", "--home", home], {
    encoding: "utf8",
  });
  expect([said.status, said.stdout]).toEqual([
    69,
    expect.stringMatching(/^missing {2}home: .*home cannot be made: ENOENT: .* → .*--home$/m),
  ]);
  expect(said.stdout).not.toContain("try another runtime");
});

test("doctor does not ask for names where no sandbox has a way out", async () => {
  await using folder = await makeTempFolder();
  const words = ["--net", process.execPath, PROGRAM, "doctor", "--home", folder.path];
  const env = { PATH: process.env["PATH"], SANDBOX_MCP_LOG_LEVEL: "silent" };
  const { status, stdout } = spawnSync("unshare", words, { encoding: "utf8", env });
  expect([status, stdout]).toEqual([
    0,
    expect.stringMatching(/^warning {2}internet: .* loopback alone: no default route$/m),
  ]);
  expect(stdout).not.toContain("sandbox: ");
  // `serve` does not offer it by itself.
  const until = canShareUsr() ? "; a stdio server uses the template host until then" : "";
  expect(stdout).toContain(`template base: not built yet${until} → `);
});

test("a key that cannot be shown is not made", async () => {
  await using folder = await makeTempFolder();
  const run = (script: string) =>
    spawnSync("sh", ["-c", script, "sh", process.execPath, PROGRAM, folder.path], {
      encoding: "utf8",
    });
  for (const nowhere of [">&-", "> /dev/null", "<&- >&-"]) {
    const { status, stderr } = run(`"$1" "$2" key create mine --home "$3" ${nowhere}`);
    expect([nowhere, status, stderr]).toEqual([
      nowhere,
      69,
      expect.stringContaining("no key was made: standard output is closed or discarded"),
    ]);
  }
  // A pipe whose reader has left.
  const left = 'mkfifo "$3.pipe" && exec 3<>"$3.pipe" 4>"$3.pipe" 3>&- && rm "$3.pipe"';
  const gone = run(`${left} && "$1" "$2" key create mine --home "$3" >&4`);
  expect([gone.status, gone.stderr]).toEqual([
    69,
    "sandbox-mcp: the key could not be shown and was removed\n",
  ]);
  const create = run('"$1" "$2" key create mine --home "$3" > /dev/full');
  expect([create.status, create.stderr]).toEqual([
    74,
    expect.stringContaining("sandbox-mcp: the key could not be shown and was removed\n"),
  ]);
  const list = run('"$1" "$2" key list --home "$3"');
  expect([list.status, list.stdout]).toEqual([0, ""]);
});

test("a first key that nobody would see is left to a later start, and that is told", async () => {
  await using folder = await makeTempFolder();
  const words = ["serve", "--port=0", "--pool=0", "--allow-host-template", "--home", folder.path];
  const mute = ["sh", "-c", 'exec "$@" 2> /dev/null', "sh", process.execPath, PROGRAM] as const;
  const seen: [keys: number, isTold: boolean][] = [];
  for (const command of [mute, undefined]) {
    await using program = startProgram(words, { SANDBOX_MCP_LOG_LEVEL: "silent" }, command);
    let said = "";
    program.stdout.on("data", (bytes: Buffer) => (said += bytes.toString()));
    await listeningUrl(program);
    program.stdout.resume();
    program.child.kill("SIGTERM");
    expect(await program.exited()).toBe(0);
    using store = openStore({ path: join(folder.path, "state.db") });
    const { length } = store.keys.all();
    seen.push([length, /no API key yet.*: .*key create NAME --home \S+$/m.test(said)]);
  }
  expect(seen).toEqual([
    [0, true],
    [1, false],
  ]);
});

test("the list has one line for each key, also of names that earlier versions took", async () => {
  await using folder = await makeTempFolder();
  const rows = [
    { keyId: "00000001", name: "plain", team: "local" },
    { keyId: "00000002", name: "a  local  b", team: "blue" },
    { keyId: "00000003", name: "a\u202Eb", team: "blue" },
  ];
  {
    using store = openStore({ path: join(folder.path, "state.db") });
    for (const row of rows) {
      store.keys.add({ ...row, hash: row.keyId, mask: `e2b_${row.keyId}`, createdAtMs: 0 });
    }
  }
  const run = async (...words: string[]) =>
    promisify(execFile)(process.execPath, [PROGRAM, "key", ...words, "--home", folder.path]);
  const date = "1970-01-01T00:00:00.000Z";
  const blue = [
    `00000002  e2b_00000002  ${date}  blue  "a  local  b"`,
    `00000003  e2b_00000003  ${date}  blue  "a\\u202eb"`,
  ];
  const all = [`00000001  e2b_00000001  ${date}  local  plain`, ...blue];
  expect((await run("list")).stdout).toBe(`${all.join("\n")}\n`);
  expect((await run("list", "--team", "blue")).stdout).toBe(`${blue.join("\n")}\n`);
  await expect(run("revoke", "plain", "--team", "blue")).rejects.toMatchObject({
    code: 69,
    stderr: "sandbox-mcp: no key plain in the team blue: key list shows all keys\n",
  });
  expect((await run("revoke", "00000003")).stdout).toBe("revoked e2b_00000003\n");
  await expect(run("list", "--team", "no/team")).rejects.toMatchObject({ code: 64 });
});

test.for(["key list", "gc", "template list", "doctor", "stdio", "trust", "serve"])(
  "%s leaves a directory of something else as it is",
  async (words) => {
    await using folder = await makeTempFolder();
    const home = join(folder.path, "foreign");
    await mkdir(home, { mode: 0o755 });
    await writeFile(join(home, "mine"), "");
    const run = promisify(execFile)(process.execPath, [
      PROGRAM,
      ...words.split(" "),
      "--home",
      home,
    ]);
    await expect(run).rejects.toMatchObject({
      code: 78,
      stdout: "",
      stderr: `sandbox-mcp: home ${home} is not empty and is no home of sandbox-mcp: choose a new or empty directory, or a home of sandbox-mcp, with --home\n`,
    });
    expect([(await stat(home)).mode & 0o777, await readdir(home)]).toEqual([0o755, ["mine"]]);
  },
);

test("a doctor that is stopped while it has a sandbox leaves no instance", async () => {
  await using home = await openTestHome();
  const environment = { SANDBOX_MCP_EGRESS: "on" };
  await using program = startProgram(["doctor", "--home", home.path], environment);
  const instances = join(home.path, "instances");
  await expect.poll(() => readdir(instances).catch(() => []), POLL).toHaveLength(1);
  program.child.kill("SIGTERM");
  expect([await program.exited(), program.stderr()]).toEqual([
    143,
    "sandbox-mcp: stopped by SIGTERM\n",
  ]);
  expect(await readdir(instances)).toEqual([]);
});

test.for([
  {
    name: "a refusal with codes of terminals",
    status: 500,
    body: JSON.stringify({ message: "bad \u001b[31m\n\u202Eline" }),
    says: String.raw`missing  API server: Kubernetes API: 500 bad \u001b[31m\n\u202eline`,
  },
  {
    name: "an object of another form",
    status: 200,
    body: "[]",
    says: "missing  API server: API server: not of the expected form: Invalid input: expected object, received array",
  },
  {
    name: "a redirection",
    status: 302,
    body: "",
    says: "missing  API server: Kubernetes API: 302 redirected to another address",
  },
])("doctor shows $name of a cluster on one line", async ({ status, body, says }) => {
  const server = createServer((_, response) => response.writeHead(status).end(body));
  const port = await listenOnLoopback(server);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => void server.close());
  await using folder = await makeTempFolder();
  const run = promisify(execFile)(process.execPath, [
    PROGRAM,
    "doctor",
    "--engine=kubernetes",
    `--kubernetes-url=http://127.0.0.1:${port}`,
    "--kubernetes-namespace=n",
    `--home=${folder.path}`,
  ]);
  await expect(run).rejects.toMatchObject({ code: 69, stdout: `${says}\nnot usable\n` });
});
