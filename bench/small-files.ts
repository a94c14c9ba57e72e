/**
 * Work with many small files in a sandbox, on a disk of its own and on one in a store, beside the same
 * programs of the base template in a directory of the host.
 */

import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "../test/support/base-layer.ts";
import { compare, timed, type Row } from "./figure.ts";
import { startService, type BenchService } from "./service.ts";

const run = promisify(execFile);
const TURNS = { samples: 5, budgetMs: 60_000 };
const ACTIONS = [
  { action: "create", name: "5,000 small files created" },
  { action: "status", name: "git status of 5,000 files" },
  { action: "install", name: "npm install of 60 local packages" },
] as const;
type Action = (typeof ACTIONS)[number]["action"] | "prepare";

/** In a namespace of mounts of its own, with the directory of the host at `/mnt`. */
const IN_LAYER = `
mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount --bind "$1" "$0/mnt" &&
mount -t tmpfs none "$0/tmp" && mount -t proc none "$0/proc" && mount --rbind /dev "$0/dev" &&
exec chroot "$0" /usr/bin/env -i HOME=/tmp PATH=/usr/local/bin:/usr/bin:/bin \\
  /usr/bin/python3 -c "$2" "$3" /mnt`;

interface Place extends AsyncDisposable {
  act(action: Action): Promise<void>;
}

export async function measureSmallFiles(): Promise<Row[]> {
  const program = await readFile(join(import.meta.dirname, "small-files.py"), "utf8");
  await using stack = new AsyncDisposableStack();
  const host = stack.use(await openHostPlace(program));
  const own = stack.use(await startService(["--pool", "0"]));
  const store = stack.use(await startService(["--pool", "0", "--store-gb", "8"]));
  const places = [
    { id: "disk", where: "", place: stack.use(await openSandbox(own, program)) },
    { id: "store", where: ", store", place: stack.use(await openSandbox(store, program)) },
  ];
  await host.act("prepare");
  for (const { place } of places) await place.act("prepare");
  const rows: Row[] = [];
  for (const { action, name } of ACTIONS) {
    for (const { id, where, place } of places) {
      rows.push(
        await compare({
          ...TURNS,
          id: `small-files-${action}-${id}`,
          name: `${name}${where}`,
          ours: async () => timed(async () => place.act(action)),
          floor: {
            name: "the same programs in a directory of the host",
            run: async () => timed(async () => host.act(action)),
          },
        }),
      );
    }
  }
  return rows;
}

async function openSandbox(service: BenchService, program: string): Promise<Place> {
  const sandbox = await service.create();
  return {
    async act(action) {
      await service.run(sandbox, ["python3", "-c", program, action, "/root"]);
    },
    // The service leaves its sandboxes when it ends.
    [Symbol.asyncDispose]: async () => service.kill(sandbox),
  };
}

async function openHostPlace(program: string): Promise<Place> {
  const [base] = await baseLayers();
  const directory = await mkdtemp(join(tmpdir(), "small-files-"));
  await chmod(directory, 0o755);
  const flags = ["--mount", "--pid", "--fork", "--kill-child"];
  const command = [...flags, "sh", "-c", IN_LAYER, base?.root ?? "", directory, program];
  return {
    async act(action) {
      await run("unshare", [...command, action]);
    },
    [Symbol.asyncDispose]: async () => rm(directory, { recursive: true, force: true }),
  };
}
