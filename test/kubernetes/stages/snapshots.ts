/** Snapshots and forks on the real cluster: pushed to a registry, pulled by kubelets, their files compared. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, type World } from "../world.ts";
import {
  cleanUp,
  createFrom,
  expectImagesSettled,
  imageOf,
  request,
  send,
  SETTLE_MS,
  tagsOfSnapshots,
  takeSnapshot,
  timed,
} from "./images.ts";

const ROUNDS = 8;
/** Until both nodes have pulled the image. */
const WARM_UPS = 4;
const COPIES = 4;
const FORKS = 3;
/** Made by the kubelet for each Pod. */
const MOUNTED = "etc/hostname etc/hosts etc/resolv.conf";
/** Of each file below some directories: kind, mode, owner, size, target and content. */
const DESCRIBE = `cd / && find etc srv home/user opt root var/spool -xdev \\( -type f -o -type l -o -type d -o -type p \\) \\
  -printf '%p %y %m %U:%G %l ' -a \\( -type f -exec md5sum -b {} \\; -o -printf '\\n' \\) |
  grep -v ${MOUNTED.split(" ")
    .map((path) => `-e '^${path} '`)
    .join(" ")} | sort`;
/** Every kind of change of a file that a layer can say, and some that it must leave out. */
const CHANGE = `set -e
mkdir -p /srv/tree/deep "/srv/tree/name with space" && chmod 1777 /srv/tree/deep
echo one > /srv/tree/one && chown 1000:1000 /srv/tree/one && chmod 4755 /srv/tree/one
ln /srv/tree/one /srv/tree/second && ln -s ../one /srv/tree/deep/link && ln -s /absent /srv/tree/broken
chown -h 1234:4321 /srv/tree/broken
touch -d 2001-02-03T04:05:06Z /srv/tree/old && : > "/srv/tree/name with space/é"
dd if=/dev/urandom of=/srv/tree/random bs=1M count=20 status=none
echo changed >> /etc/hosts.new && chmod 600 /etc/passwd && chmod 644 /etc/passwd && echo kept > /etc/issue
rm -f /etc/motd && rm -rf /etc/skel && mkdir /etc/skel && echo new > /etc/skel/new
rm -rf /var/spool && echo file > /var/spool
chown 33:33 /opt && chmod 711 /opt
echo run > /run/kept-file && echo linked > /var/run/linked-file
chown user:user /home/user && su user -c 'echo mine > /home/user/mine && mkdir -m 700 /home/user/private'`;

export async function runSnapshots(world: World): Promise<void> {
  await world.check("price of the list of files at a create", () => comparePrices(world));
  await world.check("a sandbox of a snapshot has its files, on both nodes", () => compare(world));
  await world.check("a snapshot of a sandbox of a snapshot", () => takeTwice(world));
  await world.check("programs that a layer added run, and times of files are kept", () =>
    checkPrograms(world),
  );
  await world.check("forks have the files and go on alone; their image goes with them", () =>
    forkAll(world),
  );
  await world.check("two snapshots without a change between them are two images", () =>
    takeEqual(world),
  );
  await world.check("a snapshot of 100 MB, and a sandbox of it", () => takeLarge(world));
  await world.check("the registry is away: 503, and creates go on", () => loseRegistry(world));
  await world.check("nothing is left", () => cleanUp(world));
}

async function run(sandbox: Sandbox, script: string): Promise<string> {
  const options = { user: "root", timeoutMs: 120_000 } as const;
  return (await sandbox.commands.run(script, options)).stdout;
}

async function comparePrices(world: World): Promise<string> {
  // Pods of a shape that no pool has.
  const template = join(world.directory, "priced.yaml");
  writeFileSync(
    template,
    `metadata: { labels: { priced: "yes" } }\n${readFileSync(world.template, "utf8")}`,
  );
  const given = { template, pool: 0 };
  await using plain = world.startFront("plain", {}, { ...given, hasSnapshots: false });
  await using listing = world.startFront("priced", {}, given);
  const targets = [plain, listing];
  const durations: number[][] = [[], []];
  for (const front of targets) await front.ready();
  for (let round = -WARM_UPS; round < ROUNDS; round += 1) {
    for (const [index, { url }] of targets.entries()) {
      const { value, ms } = await timed(async () => createAt(world, url));
      if (round >= 0) durations[index]?.push(ms);
      await send(world, `DELETE /sandboxes/${value}`);
    }
  }
  const [without = "", withList = ""] = durations.map((all) =>
    all.toSorted((left, right) => left - right).join(", "),
  );
  return `without ${without} ms; with ${withList} ms`;
}

const idSchema = z.object({ sandboxID: z.string() });

async function createAt({ apiKey }: World, url: string): Promise<string> {
  const body = await request({ url, apiKey }, "POST /sandboxes", { templateID: "base" });
  return idSchema.parse(body).sandboxID;
}

/** While a node takes no new Pods. */
export async function awayFrom<T>(
  { admin }: World,
  node: string,
  work: () => Promise<T>,
): Promise<T> {
  const set = async (unschedulable: boolean) =>
    admin.call({
      method: "PATCH",
      path: `/api/v1/nodes/${node}`,
      body: { spec: { unschedulable } },
    });
  await set(true);
  try {
    return await work();
  } finally {
    await set(false);
  }
}

async function compare(world: World): Promise<string> {
  const source = await createFrom(world, "base");
  await run(source, CHANGE);
  const taken = await timed(async () => takeSnapshot(world, source.sandboxId, "compared"));
  const expected = await run(source, DESCRIBE);
  const nodes = new Map<string, number[]>();
  const copies: Sandbox[] = [];
  for (let copy = 0; copy < COPIES; copy += 1) {
    // The scheduler prefers a node that has the image.
    const away = `node${(copy % 2) + 1}`;
    const { value, ms } = await awayFrom(world, away, async () =>
      timed(async () => createFrom(world, "compared")),
    );
    const { node, image, imageId } = await imageOf(world, value.sandboxId);
    nodes.set(node, [...(nodes.get(node) ?? []), ms]);
    const [, digest = "none"] = image.split("@");
    if (!imageId.endsWith(digest)) throw new Error(`${imageId} is not ${image}`);
    requireEqual(expected, await run(value, DESCRIBE));
    const linked = await run(value, "readlink /var/run; cat /var/run/linked-file /run/kept-file");
    if (linked !== "/run\nlinked\nrun\n") throw new Error(linked);
    copies.push(value);
  }
  for (const sandbox of [source, ...copies]) await sandbox.kill();
  if (nodes.size < 2) throw new Error(`all were on ${[...nodes.keys()].join()}`);
  const times = [...nodes].map(([node, all]) => `${node}: ${all.join(", ")} ms`);
  return `snapshot ${taken.ms} ms; creates on ${times.join("; ")}`;
}

/** @throws Error with the lines that differ */
function requireEqual(expected: string, found: string): void {
  const [before, after] = [expected.split("\n"), found.split("\n")];
  const lost = before.filter((line) => !after.includes(line)).map((line) => `- ${line}`);
  const added = after.filter((line) => !before.includes(line)).map((line) => `+ ${line}`);
  if (lost.length + added.length === 0) return;
  throw new Error([...lost, ...added].slice(0, 20).join("\n"));
}

/** What the second one has of the first is not in its layer: the list of files counts from there. */
async function takeTwice(world: World): Promise<string> {
  const first = await createFrom(world, "compared");
  await run(
    first,
    "rm -rf /srv/tree/deep /srv/tree/random; echo deeper > /srv/tree/deeper; rm /var/spool",
  );
  await takeSnapshot(world, first.sandboxId, "deeper");
  const expected = await run(first, DESCRIBE);
  const second = await createFrom(world, "deeper");
  requireEqual(expected, await run(second, DESCRIBE));
  const listed = await run(second, "ls -d /srv/tree/deep /srv/tree/random /var/spool 2>&1 | wc -l");
  for (const sandbox of [first, second]) await sandbox.kill();
  return `${listed.trim()} names that were removed are absent`;
}

async function checkPrograms(world: World): Promise<string> {
  const source = await createFrom(world, "base");
  await run(source, "cp /bin/echo /usr/local/bin/own-echo && touch -d @981173106 /srv/dated");
  await takeSnapshot(world, source.sandboxId, "programs");
  const copy = await createFrom(world, "programs");
  const text = await run(copy, "own-echo works; stat -c %Y /srv/dated; sudo -u user sudo id -u");
  for (const sandbox of [source, copy]) await sandbox.kill();
  if (text !== "works\n981173106\n0\n") throw new Error(text);
  return "sudo works as well";
}

async function forkAll(world: World): Promise<string> {
  const source = await createFrom(world, "base");
  await run(source, "echo same > /srv/fork");
  const call = `POST /sandboxes/${source.sandboxId}/fork` as const;
  const { value, ms } = await timed(async () => request(world, call, { count: FORKS }));
  const forks = z.array(z.object({ sandbox: idSchema })).parse(value);
  const tags = await tagsOfSnapshots();
  const options = { apiKey: world.apiKey, apiUrl: world.url, sandboxUrl: world.url };
  for (const { sandbox } of forks) {
    const fork = await Sandbox.connect(sandbox.sandboxID, options);
    if ((await run(fork, "cat /srv/fork; echo own > /srv/fork")) !== "same\n")
      throw new Error("files");
    await fork.kill();
  }
  if ((await run(source, "cat /srv/fork")) !== "same\n") throw new Error("the source changed");
  await source.kill();
  const goneAt = await timed(async () =>
    eventually(async () => {
      const left = await tagsOfSnapshots();
      if (left.length >= tags.length) throw new Error(left.join(" "));
    }, SETTLE_MS),
  );
  return `${FORKS} forks in ${ms} ms, image gone after ${goneAt.ms} ms`;
}

async function takeEqual(world: World): Promise<string> {
  const source = await createFrom(world, "base");
  await run(source, "echo equal > /srv/equal");
  for (const name of ["equal-one", "equal-two"]) await takeSnapshot(world, source.sandboxId, name);
  await request(world, "DELETE /templates/equal-one");
  const copy = await createFrom(world, "equal-two");
  const { image } = await imageOf(world, copy.sandboxId);
  const text = await run(copy, "cat /srv/equal");
  for (const sandbox of [source, copy]) await sandbox.kill();
  if (text !== "equal\n") throw new Error(text);
  await expectImagesSettled(world);
  return image.slice(image.indexOf("@"));
}

async function takeLarge(world: World): Promise<string> {
  const source = await createFrom(world, "base");
  await run(source, "head -c 100000000 /dev/urandom > /srv/large");
  const sum = await run(source, "md5sum < /srv/large");
  const taken = await timed(async () => takeSnapshot(world, source.sandboxId, "large"));
  const made = await timed(async () => createFrom(world, "large"));
  const found = await run(made.value, "md5sum < /srv/large");
  for (const sandbox of [source, made.value]) await sandbox.kill();
  if (found !== sum) throw new Error(found);
  return `snapshot ${taken.ms} ms, first create ${made.ms} ms`;
}

async function loseRegistry(world: World): Promise<string> {
  const source = await createFrom(world, "base");
  await world.registry.kill();
  const calls = ["snapshots", "fork", "pause"] as const;
  const replies: string[] = [];
  for (const name of calls) {
    const { status, text } = await send(world, `POST /sandboxes/${source.sandboxId}/${name}`, {});
    if (status !== 503) throw new Error(`${name}: ${status} ${text}`);
    replies.push(`${name} ${status}`);
  }
  if ((await run(source, "echo on")) !== "on\n") throw new Error("the source does not run on");
  const other = await createFrom(world, "base");
  world.registry.start();
  const taken = await eventually(async () => takeSnapshot(world, source.sandboxId, "after-all"));
  for (const sandbox of [source, other]) await sandbox.kill();
  await eventually(() => expectImagesSettled(world), SETTLE_MS);
  return `${replies.join(", ")}; then ${taken}`;
}
