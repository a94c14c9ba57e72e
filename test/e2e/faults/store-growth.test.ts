/**
 * A store that a later start makes larger: while sandboxes write to it, while another service uses it,
 * and when the service is killed or fails half way.
 */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { readStoreSpace } from "../../../src/engine/storage/store-image.ts";
import { takeCensus } from "../../support/census.ts";
import { KEPT } from "../../support/faults/fault-cases.ts";
import { make, openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { expectCleanStore, GROWTH_STEPS, openAgain } from "../../support/faults/store-growth.ts";
import { openTestHome } from "../../support/home.ts";
import { createAgent } from "../../support/mcp/agent.ts";
import { startMcpClient } from "../../support/mcp/mcp-client.ts";

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const SMALL = [...NO_POOL, "--store-gb", "8"];
const LARGE = [...NO_POOL, "--store-gb", "16"];
const POLL = { timeout: 30_000, interval: 100 } as const;
const LIMIT_MS = 180_000;
const { isWhole, random } = faultRun();

/** Writes files over and over, each with its checksum beside it, until it is asked to end. */
const WRITER = `
mkdir -p w; i=0
while [ ! -e stop ]; do
  i=$((i + 1)); n=$((i % 20))
  head -c 1000000 /dev/urandom | tee w/$n | sha256sum | head -c 64 > w/$n.sum
  echo $i > count
done
sync; touch ended
`;
const CHECK = `for n in w/*.sum; do echo "$(cat $n)  \${n%.sum}"; done | sha256sum --quiet -c - && echo right`;

/** Of the store, in GiB, with its log. */
async function sizeGbOf({ path }: FaultHome): Promise<number> {
  const { totalBytes = 0 } = (await readStoreSpace(join(path, "any"))) ?? {};
  return Math.ceil(totalBytes / GIB);
}

async function run(home: FaultHome, id: string, command: string): Promise<string> {
  const sandbox = await Sandbox.connect(id, home.client());
  return (await sandbox.commands.run(command)).stdout.trim();
}

/** The store is not mounted any more then. */
async function endAll(home: FaultHome, ids: readonly string[]): Promise<void> {
  for (const id of ids) await home.call("DELETE", `/sandboxes/${id}`);
  await home.stop("SIGTERM");
  expect((await takeCensus(home.path)).mounts).toEqual([]);
}

test("a store grows while a sandbox writes to it", { timeout: LIMIT_MS }, async () => {
  await using first = await openFaultHome(SMALL);
  await first.start();
  const id = await make(first);
  await first.enter(id, KEPT.path, KEPT.text);
  const sandbox = await Sandbox.connect(id, first.client());
  await sandbox.commands.run(WRITER, { background: true, timeoutMs: 0 });
  const count = async (home: FaultHome) => Number(await run(home, id, "cat count || echo 0"));
  await expect.poll(async () => count(first), POLL).toBeGreaterThan(20);
  await first.stop("SIGKILL");
  expect(await sizeGbOf(first)).toBe(8);
  await using second = await openAgain(first, LARGE);
  await second.start();
  expect(await sizeGbOf(first)).toBe(16);
  expect(second.stderr()).not.toContain("--store-gb");
  const atGrowth = await count(second);
  await expect.poll(async () => count(second), POLL).toBeGreaterThan(atGrowth + 20);
  await run(second, id, "touch stop");
  await expect.poll(async () => run(second, id, "ls"), POLL).toContain("ended");
  expect(await run(second, id, CHECK)).toBe("right");
  expect(await second.enter(id, KEPT.path)).toMatchObject({ body: KEPT.text });
  await second.call("POST", `/sandboxes/${id}/snapshots`, { name: "shot" });
  const copy = await make(second, { templateID: "shot" });
  expect(await run(second, copy, CHECK)).toBe("right");
  await endAll(second, [id, copy]);
  await expectCleanStore(first);
});

test("a service that has no space left gets that of a growth", { timeout: LIMIT_MS }, async () => {
  await using folder = await openTestHome();
  await using client = await startMcpClient(["--home", folder.path, ...SMALL]);
  const agent = createAgent(client);
  await agent.do("create_sandbox", {});
  const { freeBytes = 0 } = (await readStoreSpace(join(folder.path, "any"))) ?? {};
  const ballast = join(folder.path, "store/ballast");
  await runProgram(["fallocate", "-l", String(freeBytes - 512 * MIB), ballast]);
  const refused = await agent.ask("create_sandbox", {});
  expect([refused.isError, refused.text]).toEqual([
    true,
    expect.stringContaining("no space left on the disk of the service"),
  ]);
  await using other = await openAgain(folder, LARGE);
  await other.start();
  await agent.do("create_sandbox", {});
  await rm(ballast);
});

test.for(isWhole ? GROWTH_STEPS : [random.pick(GROWTH_STEPS)])(
  "killed at %s, a service leaves a store that opens, and the next start finishes the growth",
  { timeout: LIMIT_MS },
  async (step) => {
    await using first = await openFaultHome(SMALL);
    await first.start();
    const id = await make(first);
    await first.enter(id, KEPT.path, KEPT.text);
    await first.stop("SIGKILL");
    await using second = await openAgain(first, LARGE);
    await second.plan({ step, action: "kill" });
    await expect(second.start()).rejects.toThrow(/ended before it listened/);
    expect(await second.takeHit()).toBe(true);
    await first.start();
    expect(await first.enter(id, KEPT.path)).toMatchObject({ body: KEPT.text });
    await first.stop("SIGKILL");
    await second.start();
    expect(await sizeGbOf(first)).toBe(16);
    expect(await second.enter(id, KEPT.path)).toMatchObject({ body: KEPT.text });
    await endAll(second, [id]);
    await expectCleanStore(first);
  },
);

test("a growth that fails is told, and the service starts", { timeout: LIMIT_MS }, async () => {
  await using first = await openFaultHome(SMALL);
  await first.start();
  await first.stop("SIGTERM");
  await using second = await openAgain(first, LARGE);
  await second.plan({ step: "store.extended", action: "fail" });
  await second.start();
  const note =
    "sandbox-mcp: --store-gb 16: the store keeps its 8 GiB, because the growth failed: see the log, check the disk of the home, then restart the service\n";
  expect(second.stderr()).toContain(note);
  const id = await make(second);
  expect(await second.enter(id, "/health")).toMatchObject({ status: 204 });
  await second.stop("SIGTERM");
  await second.start();
  expect(await sizeGbOf(second)).toBe(16);
  await second.stop("SIGTERM");
  await first.start();
  expect(first.stderr()).toContain(
    "sandbox-mcp: --store-gb 8: the home has a store of 16 GiB, which keeps its size\n",
  );
});
