/** Templates from images and builds: fetching and unpacking, a cached build, creates with a server. */

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Template, waitForURL } from "e2b";
import { shellLayer, writeLayout } from "../test/support/images/oci-layout.ts";
import { startRegistry } from "../test/support/images/registry.ts";
import { tar } from "../test/support/images/tar-writer.ts";
import type { BenchContext } from "./context.ts";
import { compare, timed, type Contestant, type MissingPeer, type Row } from "./figure.ts";
import type { Peers } from "./peers.ts";
import { openPodman } from "./podman.ts";
import { startService, type BenchService } from "./service.ts";

const PROGRAM = resolve(import.meta.dirname, "../dist/main.js");
const FILES = 500;
const FILE_BYTES = 1_000_000;
const LAYERS = 5;
const PULLS = { samples: 3, budgetMs: 90_000 };
const BUILDS = { samples: 10, budgetMs: 20_000 };
const CREATES = { samples: 8, budgetMs: 30_000 };
const STEPS = 12;
const PORT = 8_000;
const FILL_MS = 2_500;
const run = promisify(execFile);

export async function measureImages({ peers }: BenchContext): Promise<Row[]> {
  return [await measurePull(peers), await measureBuild(), ...(await measureServer())];
}

/** Half of each file does not compress; five layers and a shell. */
async function writeImage(layout: string): Promise<void> {
  const layers = Array.from({ length: LAYERS }, (_, layer) => {
    const files = Array.from({ length: FILES / LAYERS }, (_file, index) => ({
      path: `data/${layer}/${index}`,
      data: Buffer.concat([randomBytes(FILE_BYTES / 2), Buffer.alloc(FILE_BYTES / 2, "text ")]),
    }));
    return tar(...files);
  });
  await writeLayout(layout, { layers: [await shellLayer(), ...layers] });
}

/** Ours ends with the layer on the disk; the others do not wait for the disk. */
async function measurePull(peers: Peers): Promise<Row> {
  const { umoci } = peers.debian;
  const place = await mkdtemp(join(tmpdir(), "smcp-bench-"));
  try {
    await writeImage(join(place, "image"));
    await using registry = await startRegistry({ directory: join(place, "registry") });
    const image = `${registry.host}/bench/large:1`;
    const plain = ["copy", "--quiet", "--src-tls-verify=false", "--dest-tls-verify=false"];
    await run("skopeo", [...plain, `oci:${join(place, "image")}`, `docker://${image}`]);
    const fresh = async (work: (folder: string) => Promise<unknown>): Promise<number> => {
      const folder = join(place, "work");
      await mkdir(folder);
      const ms = await timed(async () => work(folder));
      await rm(folder, { recursive: true });
      return ms;
    };
    const fetchOnly: Contestant = {
      name: "skopeo copy, nothing unpacked",
      run: () =>
        fresh((folder) => run("skopeo", [...plain, `docker://${image}`, `oci:${folder}/i:1`])),
    };
    const unpack: Contestant | MissingPeer =
      "missing" in umoci
        ? { name: "skopeo copy and umoci unpack", missing: umoci.missing }
        : {
            name: "skopeo copy and umoci unpack",
            run: () =>
              fresh(async (folder) => {
                await run("skopeo", [...plain, `docker://${image}`, `oci:${folder}/i:1`]);
                await run(umoci.path, ["unpack", "--image", `${folder}/i:1`, `${folder}/bundle`]);
              }),
          };
    const podman: Contestant | MissingPeer =
      "missing" in peers.debian.podman
        ? { name: "podman pull", ...peers.debian.podman }
        : {
            name: "podman pull, overlay",
            run: () => fresh(async (folder) => (await openPodman(peers, folder)).pull(image)),
          };
    return await compare({
      ...PULLS,
      id: "image-pull",
      name: "template pull of an image of 500 MB",
      ours: () =>
        fresh((folder) =>
          run(process.execPath, [PROGRAM, "template", "pull", image, "--home", join(folder, "h")]),
        ),
      floor: fetchOnly,
      peers: [unpack, podman],
    });
  } finally {
    await rm(place, { recursive: true, force: true });
  }
}

function clientOf({ url, apiKey }: BenchService) {
  return { apiKey, apiUrl: url, sandboxUrl: url };
}

/** By the official client, with its polls; the second build starts no sandbox. */
async function measureBuild(): Promise<Row> {
  await using service = await startService(["--pool", "0"]);
  let template = Template().fromTemplate("base");
  for (let index = 0; index < STEPS; index += 1) template = template.runCmd(`echo ${index}`);
  const build = () => Template.build(template, "cached", clientOf(service));
  await build();
  return await compare({
    ...BUILDS,
    id: "build-cached",
    name: `build of ${STEPS} cached steps, official client`,
    ours: async () => timed(build),
    floor: {
      name: "its status asked once",
      run: async () => timed(async () => Template.exists("cached", clientOf(service))),
    },
  });
}

/** A server answers when the create returns; the floor is the same create of `base`. */
async function measureServer(): Promise<Row[]> {
  await using service = await startService([
    "--pool",
    "1",
    "--pool-template",
    "served=1",
    "--disk-mb",
    "1024",
  ]);
  const build = async (name: string, flags: string) => {
    const command = `exec python3 -m http.server ${flags} ${PORT}`;
    const url = waitForURL(`http://localhost:${PORT}/`);
    const template = Template().fromTemplate("base").setStartCmd(command, url);
    await Template.build(template, name, clientOf(service));
  };
  await build("served", "");
  // Another one, of which none waits; one of the same steps and command would be the same build.
  await build("cold", "--bind 0.0.0.0");
  const create = (name: string, isServed: boolean): Contestant => ({
    name,
    async run() {
      await delay(FILL_MS);
      let sandbox = "";
      const ms = await timed(async () => {
        sandbox = await service.create(name);
        if (isServed) await service.send({ sandbox, port: PORT, path: "/" });
      });
      await service.kill(sandbox);
      return ms;
    },
  });
  const base = { ...create("base", false), name: "create of base from the pool" };
  const rows = { served: "from the pool", cold: "cold" };
  const measured: Row[] = [];
  for (const [name, how] of Object.entries(rows)) {
    measured.push(
      await compare({
        ...CREATES,
        id: `start-command-${name}`,
        name: `create with a start command to its server's reply, ${how}`,
        ours: create(name, true).run,
        floor: base,
      }),
    );
  }
  return measured;
}
