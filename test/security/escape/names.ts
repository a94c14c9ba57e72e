/** E16 to E19: names, snapshots, links and users that were made to be taken for something else. */

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { request } from "node:http";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import type { AttackRange } from "../../support/hostile/attack-range.ts";
import { attackUnconfined } from "../../support/hostile/unconfined.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const USERS = ["root", "user"];
const READ_LIMIT_MS = 5_000;
/** Longer than any name, and than a file's name may be. */
const LONG = "x".repeat(256);
/** As they stand in a path of a request. */
const PATH_NAMES = ["..", "%2e%2e", "a%2fb", "%00", LONG, "..%2f..%2f..%2fetc", "."];
/** As they stand in a body. */
const BODY_NAMES = ["..", "../../x", "a/b", "a\0b", LONG, "a:../b", ".", "", "a b", "a;id"];
const USER_NAMES = ["root\n", "-1", "../x", "4294967296", "00", "0", "1000", "root ", "ROOT"];
/** Lines of an account file by the name of their user; each number wraps, or is none. */
const ACCOUNTS = {
  big: "4294967296:0",
  minus: "-1:-1",
  wrap: "4294967295:4294967295",
  hex: "0x0:0",
  space: " 0:0",
  float: "0.5:0",
  beyond: "70000:70000",
} as const;
/** Arguments: where to make it, and a file of the host that a link in it names. */
const HOSTILE_TREE = `set -e
mkdir -p "$1"; cd "$1"; ln -s "$2" canary
truncate -s 8G sparse || truncate -s 1G sparse; mkfifo pipe; ln -s /etc/shadow link; ln -s loop loop
ln -s ../../../../../../../../etc/shadow walk; ln link hard 2>/dev/null || true
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('door')"
touch "$(printf 'a\\nb')" "$(printf '%255s' | tr ' ' x)" -- -rf
mkdir deep; cd deep; for i in $(seq 200); do mkdir d; cd d; done
cd "$1"; mkdir many; cd many; seq 500 | xargs touch`;

const REFUSED_USER = /invalid username|invalid argument/;
const REFUSED = "(does not exist|regular file|denied|too many levels)";
/** Links to `environ`, which a kernel of its own shows: the daemon's has nothing secret. */
const ENVIRONMENTS = new Set(["link0", "link1"]);
const NO_SECRETS = "^shown: (?!.*[0-9a-f]{32}).*UV_THREADPOOL_SIZE=";

/** In a sandbox of the range. */
export function describeNames(place: () => AttackRange): void {
  test("E16 no id or name of a request leaves its folder", async () => {
    const { serve, sandbox } = place();
    const listing = async () => ({
      layers: await readdir(join(serve.home, "layers")),
      volumes: await readdir(join(serve.home, "volumes")).catch(() => []),
      disks: await readdir(join(serve.home, "volume-disks")).catch(() => []),
      home: await readdir(serve.home),
    });
    const before = await listing();
    const statuses: [string, number][] = [];
    for (const name of PATH_NAMES) {
      for (const kind of ["sandboxes", "templates", "volumes"]) {
        for (const method of ["GET", "DELETE"]) {
          const { status } = await send(place(), { method, path: `/${kind}/${name}` });
          statuses.push([`${method} ${kind} ${name}`, status]);
        }
      }
    }
    for (const name of BODY_NAMES) {
      const calls = [
        { path: "/sandboxes", body: { templateID: name } },
        { path: `/sandboxes/${sandbox.sandboxId}/snapshots`, body: { name } },
        { path: "/volumes", body: { name } },
      ];
      for (const call of calls) {
        const { status } = await send(place(), { method: "POST", ...call });
        statuses.push([`POST ${call.path} ${name}`, status]);
      }
    }
    const wrong = statuses.filter(([, status]) => status !== 400 && status !== 404);
    expect(wrong).toEqual([]);
    expect(statuses).toHaveLength(72);
    expect(await listing()).toEqual(before);
  });

  test("E16 control: joined to a folder, such names leave it", () => {
    const folder = "/home/of/layers";
    const names = PATH_NAMES.map((name) => decodeURIComponent(name));
    const leaving = names.filter((name) => !resolve(folder, name).startsWith(`${folder}/`));
    expect(leaving).toEqual(["..", "..", "../../../etc", "."]);
  });

  test.for(USERS)("E17 a snapshot of a hostile tree of %s holds that tree alone", async (user) => {
    const { canary, hasOwnKernel, options, serve } = place();
    const sandbox = await place().createSandbox();
    const tree = user === "root" ? "/srv/tree" : "/home/user/tree";
    await sandbox.files.write("/tmp/tree.sh", HOSTILE_TREE);
    await sandbox.commands.run(`bash /tmp/tree.sh ${tree} ${canary.path}/secret.txt`, { user });
    const { snapshotId } = await sandbox.createSnapshot();
    const copy = await Sandbox.create(snapshotId, options);
    const look = `cd ${tree}; stat -c '%n %F %s' link walk pipe door; du -k sparse; ls many | wc -l; cat canary 2>&1 | tail -c 30`;
    const [first, second] = await Promise.all(
      [sandbox, copy].map(async (one) => (await one.commands.run(look)).stdout),
    );
    expect(second).toBe(first);
    // Another kernel takes the length of a file for its blocks; what counts is the disk.
    expect(second).toMatch(hasOwnKernel ? /^\d+\s+sparse$/m : /^0\s+sparse$/m);
    const sizes = await run("find", [
      join(serve.home, "layers"),
      "-name",
      "sparse",
      "-printf",
      "%k\n",
    ]);
    expect(sizes.stdout).toMatch(/^(0\n)+$/);
    expect(second).toMatch(/No such file or directory\n$/);
    expect(second).not.toContain(canary.secret);
    await Promise.all([copy.kill(), sandbox.kill()]);
    await Sandbox.deleteSnapshot(snapshotId, options);
  });

  test("E17 control: a copy that follows links takes the host's file along", async () => {
    await using folder = await makeTempFolder();
    const [tree, copy] = [join(folder.path, "tree"), join(folder.path, "copy")];
    const { canary } = place();
    await run("bash", ["-c", HOSTILE_TREE, "bash", tree, `${canary.path}/secret.txt`]);
    // It also complains of what leads nowhere.
    await run("cp", ["-rL", tree, copy]).catch(() => undefined);
    expect(await readFile(join(copy, "canary"), "utf8")).toBe(canary.secret);
  });

  test.for(USERS)("E18 a download of %s is of the sandbox, or an error", async (user) => {
    const { sandbox, canary, hasOwnKernel } = place();
    const targets = [
      "/proc/self/environ",
      "/proc/1/environ",
      `${canary.path}/secret.txt`,
      `/proc/1/root${canary.path}/secret.txt`,
      "/dev/zero",
      "/proc/kcore",
      "loop",
    ];
    const folder = `/tmp/links-${user}`;
    const makeLinks = targets.map((target, index) => `ln -sfn ${target} link${index}`).join("; ");
    const make = `mkdir -p ${folder}; cd ${folder}; ${makeLinks}; ln -sfn loop loop; mkfifo pipe`;
    await sandbox.commands.run(make, { user });
    for (const name of [...targets.keys().map((index) => `link${index}`), "pipe", "loop"]) {
      const reading = sandbox.files.read(`${folder}/${name}`, {
        user,
        requestTimeoutMs: READ_LIMIT_MS,
      });
      const outcome = await reading.then((shown) => `shown: ${shown}`, String);
      const mayShow = hasOwnKernel && ENVIRONMENTS.has(name);
      const allowed = mayShow ? new RegExp(`${REFUSED}|${NO_SECRETS}`, "s") : new RegExp(REFUSED);
      expect([name, outcome]).toEqual([name, expect.stringMatching(allowed)]);
    }
    await sandbox.commands.run(`ln -sfn /etc/shadow ${folder}/shadow`, { user });
    const shadow = await sandbox.files.read(`${folder}/shadow`, { user });
    expect(shadow).toMatch(/^root:\*:19000:/);
  });

  test("E18 control: on the host the same path is the canary", async () => {
    const { canary } = place();
    const words = [canary.path];
    const outcomes = await attackUnconfined({ program: "processes", id: "E05", words }, "leak");
    expect(outcomes["/proc/self/fd/9"]).toBe("escaped");
  });

  test("E19 no spelling of a user is another one", async () => {
    const { sandbox, hasOwnKernel } = place();
    for (const user of USER_NAMES) {
      await expect(sandbox.commands.run("id -u", { user })).rejects.toThrow(/invalid username/);
    }
    const other = await place().createSandbox();
    const lines = Object.entries(ACCOUNTS).map(([name, ids]) => `${name}:x:${ids}::/:/bin/sh\\n`);
    await other.commands.run(`printf '${lines.join("")}' >> /etc/passwd`, { user: "root" });
    const beyond = await other.commands
      .run("id -u; touch /tmp/x || echo none", { user: "beyond" })
      .then(({ stdout }) => stdout, String);
    // Its own kernel has ids for all numbers; no file of the machine can belong to this one.
    expect(beyond).toMatch(hasOwnKernel ? /^70000\nnone\n$/ : REFUSED_USER);
    for (const user of Object.keys(ACCOUNTS).filter((name) => name !== "beyond")) {
      await expect(other.commands.run("id -u", { user })).rejects.toThrow(REFUSED_USER);
    }
    await other.kill();
  });

  test("E19 control: taken as 32 bits, such a number is root or changes nothing", () => {
    const ids = Object.values(ACCOUNTS).map((line) => Number(line.split(":")[0]) | 0);
    expect(ids).toEqual([0, -1, -1, 0, 0, 0, 70_000]);
  });
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

/** A call with the path exactly as it is. */
async function send({ serve }: AttackRange, call: Call): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(serve.url);
  const {
    promise,
    resolve: settle,
    reject,
  } = Promise.withResolvers<{
    status: number;
    body: string;
  }>();
  const headers = { "x-api-key": serve.apiKey, "content-type": "application/json" };
  const outgoing = request({ hostname, port, method: call.method, path: call.path, headers });
  outgoing.once("error", reject);
  outgoing.once("response", (response) => {
    text(response).then((body) => settle({ status: response.statusCode ?? 0, body }), reject);
  });
  outgoing.end(call.body === undefined ? undefined : JSON.stringify(call.body));
  return promise;
}
