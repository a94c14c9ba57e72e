/** Limits of a container as tests read them: the same figures from trees of either version. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openLimits } from "../../support/engine/container-limits.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIMITS = { memory: 1_024, memoryAndSwap: 1_024, cpuQuota: 50_000, pids: 40 };

async function write(folder: string, files: Readonly<Record<string, string>>) {
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
}

test("in a unified tree, with swap and without", async () => {
  await using tree = await makeTempFolder();
  const folder = join(tree.path, "sandbox-mcp/i1");
  const files = { "memory.max": "1024\n", "cpu.max": "50000 100000\n", "pids.max": "40\n" };
  await write(folder, files);
  const { limits, read } = await openLimits("i1", { unified: tree.path, legacy: [] });
  expect(await limits()).toEqual(LIMITS);
  await write(folder, { "memory.swap.max": "0\n", "memory.peak": "7\n" });
  expect(await limits()).toEqual(LIMITS);
  expect(await read("memory", "memory.max_usage_in_bytes", "memory.peak")).toBe("7");
});

test("in trees of version 1, also beside a unified one", async () => {
  await using tree = await makeTempFolder();
  const at = (name: string) => join(tree.path, name);
  const memory = { "memory.limit_in_bytes": "1024\n", "memory.memsw.limit_in_bytes": "1024\n" };
  await write(at("memory/sandbox-mcp/i1"), memory);
  await write(at("both/sandbox-mcp/i1"), { "cpu.cfs_quota_us": "50000\n" });
  await write(at("pids/sandbox-mcp/i1"), { "pids.max": "40\n" });
  const legacy = [
    { controllers: ["rw", "memory"], path: at("memory") },
    { controllers: ["cpu", "cpuacct"], path: at("both") },
    { controllers: ["pids"], path: at("pids") },
  ];
  const { limits } = await openLimits("i1", { unified: at("unified"), legacy });
  expect(await limits()).toEqual(LIMITS);
});
