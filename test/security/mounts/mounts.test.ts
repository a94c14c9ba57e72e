/**
 * E43: volumes that lead each other elsewhere, by their paths, by links in the root file system and
 * in volumes, and by links that change while a sandbox starts. Either the create answers 400, or
 * each volume is exactly where it was asked for and the daemon is ours, and its token is in no volume.
 */

import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Sandbox, Volume, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { parseMounts } from "../../../src/engine/host/mount-table.ts";
import { cleanBindPath } from "../../../src/engine/storage/bind-paths.ts";
import { baseLayers } from "../../support/base-layer.ts";
import {
  hostileLinks,
  LINKED_FOLDER,
  mountCase,
  MOVED_FOLDER,
  ORDINARY,
} from "../../support/hostile/mount-cases.ts";
import { startWeakHost } from "../../support/hostile/weak-runtime.ts";
import { openOrdinaryUser } from "../../support/ordinary-user.ts";
import { chooseSeed, createRandom } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import {
  attackedRuntimes,
  attackPlaces,
  hasOwnKernel,
  IS_WHOLE_RUN,
} from "../../support/runtimes.ts";
import { startServe, type TestServe } from "../../support/serve.ts";

const run = promisify(execFile);

/** Of each place; most are refused before anything starts. */
const CASES = IS_WHOLE_RUN ? 500 : 30;
const VOLUMES = ["one", "two", "three"];
/** In each volume, with its id. */
const MARK = "mark";
const FIXED = ["/run/sandbox-mcp", "/proc", "/sys", "/dev", "/run", "/"];
const TIMEOUT_MS = 600_000;

const createdSchema = z.object({ sandboxID: z.string(), envdAccessToken: z.string() });
const errorSchema = z.object({ code: z.literal(400), message: z.string() });

describe.each(attackPlaces())("on $name", (place) => {
  let stack: AsyncDisposableStack;
  let serve: TestServe;
  let options: SandboxOpts;
  let volumeIds: readonly string[];
  let template: string;

  beforeAll(async () => {
    stack = new AsyncDisposableStack();
    const account = place.isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
    serve = stack.use(await startServe(["--runtime", place.runtime, "--pool", "0"], { account }));
    options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
    const volumes = await Promise.all(VOLUMES.map(async (name) => Volume.create(name, options)));
    volumeIds = volumes.map(({ volumeId }) => volumeId);
    template = await plantLinks(options, volumes);
  });

  afterAll(async () => stack.disposeAsync());

  const create = async (paths: readonly string[]) => {
    const volumeMounts = paths.map((path, index) => ({ name: VOLUMES[index], path }));
    const response = await fetch(`${serve.url}/sandboxes`, {
      method: "POST",
      headers: { "x-api-key": serve.apiKey, "content-type": "application/json" },
      body: JSON.stringify({ templateID: template, timeout: 60, secure: true, volumeMounts }),
    });
    return { status: response.status, body: await response.json() };
  };

  test(
    "E43 every create is refused, or right in all its mounts",
    { timeout: TIMEOUT_MS },
    async (context) => {
      const seed = chooseSeed();
      const counts = { refused: 0, right: 0 };
      for (let count = 0; count < CASES; count += 1) {
        const random = createRandom(seed + count);
        // Some that must succeed, whatever the seed: a generator of refusals alone proves nothing.
        const paths = count % 10 === 0 ? [random.pick(ORDINARY)] : mountCase(random);
        const told = `seed ${seed + count}: ${JSON.stringify(paths)}`;
        const { status, body } = await create(paths);
        if (status === 400) {
          errorSchema.parse(body);
          counts.refused += 1;
          continue;
        }
        expect({ told, status, body }).toEqual({ told, status: 201, body: expect.anything() });
        const { sandboxID, envdAccessToken } = createdSchema.parse(body);
        const sandbox = await Sandbox.connect(sandboxID, options);
        await expectMounts(sandbox, paths, told);
        await sandbox.kill();
        expect({ told, found: await findToken(serve.home, envdAccessToken) }).toEqual({
          told,
          found: "",
        });
        counts.right += 1;
      }
      expect(Math.min(counts.refused, counts.right)).toBeGreaterThan(CASES / 20);
      tellCells(context, CASES);
    },
  );

  test("E43 a link on the way that the template has answers 400", async () => {
    for (const path of [
      "/var/run/x",
      "/bin",
      "/lib64",
      `${LINKED_FOLDER}/link0`,
      `${MOVED_FOLDER}/link0`,
    ]) {
      expect({ path, status: (await create([path])).status }).toEqual({ path, status: 400 });
    }
  });

  test("E43 a volume that flips beneath a start stays where it belongs", async (context) => {
    const writer = await Sandbox.create("base", {
      ...options,
      volumeMounts: { "/data": await volumeOf("one") },
    });
    const flip = await writer.commands.run(FLIP, { background: true, user: "root" });
    const cases = IS_WHOLE_RUN ? 30 : 3;
    for (let count = 0; count < cases; count += 1) {
      const { status, body } = await create(["/data", "/mnt/other"]);
      expect(status).toBe(201);
      const { sandboxID, envdAccessToken } = createdSchema.parse(body);
      const sandbox = await Sandbox.connect(sandboxID, options);
      await expectMounts(sandbox, ["/data", "/mnt/other"], "flipped");
      await sandbox.kill();
      expect(await findToken(serve.home, envdAccessToken)).toBe("");
    }
    await flip.kill();
    await writer.kill();
    tellCells(context, cases);
  });

  test("E43 a sandbox that replaced the folders above its volume does not boot with it elsewhere", async () => {
    const volumeMounts = { "/opt/deep/data": await volumeOf("two") };
    const sandbox = await Sandbox.create("base", { ...options, volumeMounts });
    await sandbox.commands.run(
      "mv /opt/deep /opt/gone && mkdir /opt/trap && ln -s /run/sandbox-mcp /opt/trap/data && ln -s trap /opt/deep",
      { user: "root" },
    );
    await sandbox.pause({ keepMemory: false });
    await expect(sandbox.connect()).rejects.toThrow("/opt/deep is not a real folder");
    await sandbox.kill();
  });

  async function volumeOf(name: string): Promise<Volume> {
    const volumeId = volumeIds[VOLUMES.indexOf(name)] ?? "";
    return Volume.connect(volumeId, options);
  }

  /** Its table names no source: what is in a volume tells which one it is. */
  async function expectOwnMounts(sandbox: Sandbox, paths: readonly string[], told: string) {
    const table = await sandbox.commands.run("cat /proc/self/mountinfo", { user: "root" });
    const targets = parseMounts(table.stdout).map(({ target }) => target);
    const countOf = (path: string) => targets.filter((target) => target === path).length;
    for (const [index, path] of paths.entries()) {
      const clean = cleanBindPath(path);
      const mark = await sandbox.files.read(join(clean, MARK), { user: "root" });
      const found = { told, clean, mark, count: countOf(clean) };
      expect(found).toEqual({ told, clean, mark: volumeIds[index], count: 1 });
    }
    // Where the sentry's first program may mount, the bounded /proc is on top of the first one.
    const counts = FIXED.map((path) => [path, path === "/proc" ? 1 : countOf(path)]);
    expect({ told, counts }).toEqual({ told, counts: FIXED.map((path) => [path, 1]) });
    expect([1, 2]).toContain(countOf("/proc"));
  }

  async function expectMounts(sandbox: Sandbox, paths: readonly string[], told: string) {
    if (hasOwnKernel(place.runtime)) return expectOwnMounts(sandbox, paths, told);
    const table = await sandbox.commands.run("cat /proc/self/mountinfo", { user: "root" });
    const mounts = parseMounts(table.stdout).map(({ target, root, type }) => ({
      target,
      root,
      type,
    }));
    const at = (path: string) => mounts.filter(({ target }) => target === path);
    for (const [index, path] of paths.entries()) {
      const clean = cleanBindPath(path);
      const found = at(clean).map(({ root }) => root.split("/").at(-1));
      expect({ told, clean, found }).toEqual({ told, clean, found: [volumeIds[index]] });
    }
    const types = FIXED.map((path) => at(path).map(({ type }) => type));
    expect({ told, types }).toEqual({
      told,
      types: [["overlay"], ["proc"], ["sysfs"], ["tmpfs"], ["tmpfs"], ["overlay"]],
    });
    const volumes = mounts.filter(({ root }) => volumeIds.some((id) => root.endsWith(`/${id}`)));
    expect({ told, count: volumes.length }).toEqual({ told, count: paths.length });
  }
});

// A kernel of its own refuses such a mount by itself.
test.for(attackedRuntimes().filter((name) => !hasOwnKernel(name)))(
  "E43 control: %s follows a link in a volume, which is seen before the daemon gets its token",
  async (runtime) => {
    await using host = await startWeakHost(runtime, { config: RUNTIME_MAKES_THE_MOUNTS });
    const [first, second] = [join(host.home, "first"), join(host.home, "second")];
    await mkdir(first);
    await mkdir(second);
    await writeFile(join(second, "loader"), "#!/bin/sh\nexec sleep 60\n", { mode: 0o755 });
    await symlink("/run/sandbox-mcp", join(first, "link"));
    const binds = [{ source: first, path: "/data" }];
    const layers = await baseLayers();
    await expect(host.create({ layers, binds })).rejects.toMatchObject({
      message: expect.stringContaining("/run/sandbox-mcp is mounted twice"),
    });
  },
);

/** What the runtime was told before: a volume, and another one that the first one's link leads on. */
const RUNTIME_MAKES_THE_MOUNTS = `if (/\\/c-[^/]*\\/config.json$/.test(path)) config.mounts.push({
  destination: "/data/link",
  type: "bind",
  source: path.replace(/c-[^/]*\\/config.json$/, "second"),
  options: ["bind", "rw"],
});`;

/** Makes and removes links to the daemon's folder where another start makes its mounts. */
const FLIP = `cd /data; mkdir -p real; while :; do
  ln -sfn /run/sandbox-mcp flip; ln -sfn /proc other; rm -rf flip other; mkdir -p flip other; rmdir flip other; done`;

/** Links in every volume, and a template with links in folders of its own, one of them renamed. */
async function plantLinks(options: SandboxOpts, volumes: readonly Volume[]): Promise<string> {
  const volumeMounts = Object.fromEntries(
    volumes.map((volume, index) => [`/mnt/v${index}`, volume]),
  );
  const first = await Sandbox.create("base", { ...options, volumeMounts });
  const script = hostileLinks()
    .map(({ name, target }) => `ln -s '${target}' ${name}`)
    .join("\n");
  await first.files.write("/root/plant", script, { user: "root" });
  const folders = [...volumes.keys()].map((index) => `/mnt/v${index}`).join(" ");
  const before = `${MOVED_FOLDER}-before`;
  for (const [index, { volumeId }] of volumes.entries()) {
    await first.files.write(`/mnt/v${index}/${MARK}`, volumeId, { user: "root" });
  }
  await first.commands.run(
    `mkdir -p ${LINKED_FOLDER} ${before}; for f in ${folders} ${LINKED_FOLDER} ${before}; do (cd $f; sh /root/plant); done`,
    { user: "root" },
  );
  const below = await first.createSnapshot();
  await first.kill();
  const second = await Sandbox.create(below.snapshotId, options);
  // The layer holds an empty folder that shows the contents of another name in the layer below.
  await second.commands.run(`mv ${before} ${MOVED_FOLDER}`, { user: "root" });
  const { snapshotId } = await second.createSnapshot();
  await second.kill();
  return snapshotId;
}

/** The files of volumes in which a token is; those that come and go meanwhile are passed over. */
async function findToken(home: string, token: string): Promise<string> {
  const { stdout } = await run("sh", [
    "-c",
    // Images hold what is mounted beside them.
    'grep -rslF --exclude=disk.img -e "$1" "$2" "$3"; true',
    "sh",
    token,
    join(home, "volumes"),
    join(home, "volume-disks"),
  ]);
  return stdout;
}
