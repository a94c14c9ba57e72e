/** Records of containers after a power cut: which container is found again, and with which disk. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRecord, RECORD_NAME, writeRecord } from "../../../src/engine/oci/container-record.ts";
import { openContainer } from "../../../src/engine/oci/container.ts";
import { createOciEngine } from "../../../src/engine/oci/oci.ts";
import { openProcessGroup, type Cgroup } from "../../../src/engine/oci/process-group.ts";
import { createSocketWatch } from "../../../src/engine/oci/socket-watch.ts";
import { BARE_PARTS, HALTED } from "../../support/engine/halted-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const OTHER_BOOT = "00000000-0000-4000-8000-000000000000";

/** Nothing of it may be needed: what is not found again is told apart before the machine is looked at. */
function engineIn(home: string) {
  const path = "/nonexistent";
  const daemon = { bundle: path, starter: path, node: path, perlDirectory: path };
  return createOciEngine({
    home,
    runtime: "none",
    requireLevel: "userns-container",
    namespaceFault: undefined,
    guardian: path,
    daemon: { ...daemon, warmUp: () => [] },
  });
}

test("half a record, and one of zeros, is no container", async () => {
  await using folder = await makeTempFolder();
  const engine = engineIn(folder.path);
  const text = JSON.stringify(HALTED);
  const halves = Array.from(text, (_character, length) => text.slice(0, length));
  const found: string[] = [];
  for (const half of [...halves, "\0".repeat(text.length), "null", "{}"]) {
    await writeFile(join(folder.path, RECORD_NAME), half);
    if ((await engine.adopt("i0", folder.path)) !== undefined) found.push(half);
  }
  expect(found).toEqual([]);
});

test("a disk that the machine had in memory when it went down is not found again", async () => {
  await using folder = await makeTempFolder();
  await writeRecord(folder.path, { ...HALTED, unsyncedSince: OTHER_BOOT });
  expect(await engineIn(folder.path).adopt("i0", folder.path)).toBeUndefined();
});

test("the record says of a disk whether it is durable, from halt to boot and again", async () => {
  await using folder = await makeTempFolder();
  const directory = join(folder.path, "i0");
  await mkdir(join(directory, "disk"), { recursive: true });
  await writeFile(join(directory, "disk.img"), "");
  const isDurable = async () => (await readRecord(directory))?.unsyncedSince === undefined;
  const seen: Record<string, boolean> = {};
  const cgroup: Cgroup = {
    ...openProcessGroup("i0", directory),
    async kill() {
      seen["while it is halted"] ??= await isDurable();
    },
  };
  const container = openContainer({
    ...BARE_PARTS,
    directory,
    record: HALTED,
    cgroup,
    async boot() {
      seen["while it starts"] = await isDurable();
      return HALTED;
    },
    sockets: createSocketWatch(),
  });
  await container.halt();
  seen["after the halt"] = await isDurable();
  const spec = {
    id: "i0",
    directory,
    layers: [],
    limits: { memoryMb: 1, cpus: 1, diskMb: 1, pids: 1 },
  };
  await container.boot({ ...spec, hostname: "i0", egress: "none" }, new AbortController().signal);
  expect(seen).toEqual({
    "while it is halted": false,
    "after the halt": true,
    "while it starts": false,
  });
});
