/** A sandbox from create to kill, as the public client's class of that name offers it. */

import assert from "node:assert/strict";
import type { Sandbox, SandboxInfo } from "e2b";
import { Template } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isOfPods, RELEASES, useSdkServe, type Sdk } from "../../support/clients/sdk.ts";

const service = useSdkServe(["--pool", "0"]);

/** The cluster of the tests enforces no rules of egress. */
const WISH = {
  lifecycle: { onTimeout: "pause", autoResume: false },
  network: {
    allowPublicTraffic: false,
    ...(!isOfPods && { denyOut: ["1.2.3.4"] }),
    maskRequestHost: "a.test",
  },
} as const;

interface Paginator<Item> {
  readonly hasNext: boolean;
  nextItems(): Promise<Item[]>;
}

/** Every item of a list, page by page, and how many pages there were. */
async function drain<Item>(paginator: Paginator<Item>) {
  const items: Item[] = [];
  let pages = 0;
  while (paginator.hasNext) {
    items.push(...(await paginator.nextItems()));
    pages += 1;
  }
  return { items, pages };
}

async function idsOf(sdk: Sdk, query: object): Promise<string[]> {
  const { items } = await drain<SandboxInfo>(sdk.Sandbox.list({ ...service.options, query }));
  return items.map(({ sandboxId }) => sandboxId);
}

describe.each(RELEASES)("e2b $release", ({ release, sdk }) => {
  const key = { suite: release, "k 1": "v&=1" };
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", {
      ...service.options,
      metadata: key,
      envs: { GREETING: "hello" },
      timeoutMs: 120_000,
      ...WISH,
    });
  });

  afterAll(async () => sandbox.kill());

  test("what was asked for is told", async () => {
    const info = await sandbox.getInfo();
    expect(info).toMatchObject({
      sandboxId: sandbox.sandboxId,
      name: "base",
      metadata: key,
      state: "running",
      cpuCount: 2,
      memoryMB: 512,
      envdVersion: "0.6.13",
      ...WISH,
    });
    expect(sandbox.trafficAccessToken).toMatch(/^[0-9a-f]{64}$/);
    expect((await sandbox.commands.run("echo $GREETING")).stdout).toBe("hello\n");
  });

  test("lists are filtered, ordered and paged", async () => {
    const options = { ...service.options, metadata: { suite: `${release} list` } };
    const others = [
      await sdk.Sandbox.create("base", options),
      await sdk.Sandbox.create("base", options),
    ];
    const ids = others.map(({ sandboxId }) => sandboxId);
    expect(await idsOf(sdk, { metadata: key })).toEqual([sandbox.sandboxId]);
    expect(await idsOf(sdk, { metadata: options.metadata, state: ["paused"] })).toEqual([]);
    expect(await idsOf(sdk, { metadata: options.metadata })).toEqual(ids.toReversed());
    const query = { metadata: options.metadata, state: ["running" as const] };
    const paged = await drain<SandboxInfo>(
      sdk.Sandbox.list({ ...service.options, query, limit: 1 }),
    );
    expect(paged.items.map(({ sandboxId }) => sandboxId)).toEqual(ids.toReversed());
    expect(paged.pages).toBe(2);
    await Promise.all(others.map((other) => other.kill()));
  });

  test("its time to live is moved both ways, and only extended by connect", async () => {
    const endMs = async () => (await sandbox.getInfo()).endAt.getTime();
    const beforeMs = Date.now();
    await sandbox.setTimeout(900_000);
    expect(await endMs()).toBeGreaterThanOrEqual(beforeMs + 900_000);
    await sdk.Sandbox.connect(sandbox.sandboxId, { ...service.options, timeoutMs: 60_000 });
    expect(await endMs()).toBeGreaterThanOrEqual(beforeMs + 900_000);
    await sdk.Sandbox.setTimeout(sandbox.sandboxId, 300_000, service.options);
    expect(await endMs()).toBeLessThanOrEqual(Date.now() + 300_000);
  });

  test("a pause keeps files; a second one says that it is paused", async () => {
    await sandbox.files.write("kept.txt", "kept");
    expect(await sandbox.pause()).toBe(true);
    expect(await sdk.Sandbox.pause(sandbox.sandboxId, service.options)).toBe(false);
    expect(await sandbox.isRunning()).toBe(false);
    expect(await idsOf(sdk, { state: ["paused"], metadata: key })).toEqual([sandbox.sandboxId]);
    const resumed = await sdk.Sandbox.connect(sandbox.sandboxId, service.options);
    expect(await resumed.files.read("kept.txt")).toBe("kept");
  });

  test("a pause keeps processes", async () => {
    const command = await sandbox.commands.run("exec sleep 600", { background: true });
    await sandbox.pause();
    const resumed = await sdk.Sandbox.connect(sandbox.sandboxId, service.options);
    expect((await resumed.commands.list()).map(({ pid }) => pid)).toContain(command.pid);
    await resumed.commands.kill(command.pid);
  });

  test("the rules of its network are replaced", async () => {
    await sandbox.updateNetwork({ denyOut: ["5.6.7.8"] });
    const { network } = await sandbox.getInfo();
    expect(network).toMatchObject({ denyOut: ["5.6.7.8"], allowPublicTraffic: false });
  });

  test("its figures are told", async () => {
    await expect.poll(async () => (await sandbox.getMetrics()).length).toBeGreaterThan(0);
    const [sample] = await sdk.Sandbox.getMetrics(sandbox.sandboxId, service.options);
    expect(sample).toMatchObject({ cpuCount: 2, memTotal: 512 * 1024 * 1024 });
    expect(sample?.timestamp).toBeInstanceOf(Date);
  });

  test("a snapshot is listed, started from and deleted", async () => {
    const name = `app-${release.replaceAll(".", "-")}`;
    await sandbox.files.write("/opt/tool/run.sh", "echo from the snapshot");
    await sandbox.commands.run("rm /etc/debian_version", { user: "root" });
    const { snapshotId, names } = await sandbox.createSnapshot({ name });
    expect({ snapshotId, names }).toEqual({
      snapshotId: `local/${name}:default`,
      names: [`local/${name}`],
    });
    await sandbox.files.write("/opt/tool/run.sh", "changed later");
    const { items } = await drain(sandbox.listSnapshots());
    expect(items.map((item) => item.snapshotId)).toEqual([snapshotId]);
    const second = await sdk.Sandbox.create(name, service.options);
    const result = await second.commands.run("sh /opt/tool/run.sh; ls /etc/debian_version || id");
    expect(result.stdout).toContain("from the snapshot\nuid=1000(user)");
    await second.kill();
    expect(await sdk.Sandbox.deleteSnapshot(snapshotId, service.options)).toBe(true);
    expect(await sdk.Sandbox.deleteSnapshot(snapshotId, service.options)).toBe(false);
  });

  test("tags of a snapshot are set, listed and removed", async () => {
    const name = `tagged-${release.replaceAll(".", "-")}`;
    const { snapshotId } = await sandbox.createSnapshot({ name });
    try {
      await Template.assignTags(name, ["v1"], service.options);
      expect(await Template.exists(`${name}:v1`, service.options)).toBe(true);
      expect(await Template.exists(`${name}:v2`, service.options)).toBe(false);
      const tags = await Template.getTags(name, service.options);
      expect(tags.map(({ tag }) => tag)).toEqual(["default", "v1"]);
      const second = await sdk.Sandbox.create(`${name}:v1`, service.options);
      await second.kill();
      await Template.removeTags(name, "v1", service.options);
      expect(await Template.exists(`${name}:v1`, service.options)).toBe(false);
    } finally {
      await sdk.Sandbox.deleteSnapshot(snapshotId, service.options);
    }
  });

  test("forks are sandboxes of their own", async () => {
    const forks = await sandbox.fork({ count: 2 });
    const ids = forks.map((fork) => (fork instanceof sdk.Sandbox ? fork.sandboxId : "failed"));
    expect(new Set([...ids, sandbox.sandboxId]).size).toBe(3);
    for (const fork of forks) {
      assert(fork instanceof sdk.Sandbox);
      expect(await fork.files.read("kept.txt")).toBe("kept");
      await fork.kill();
    }
  });

  test("a killed sandbox is gone for every call", async () => {
    const doomed = await sdk.Sandbox.create("base", service.options);
    expect(await doomed.kill()).toBe(true);
    expect(await sdk.Sandbox.kill(doomed.sandboxId, service.options)).toBe(false);
    expect(await doomed.isRunning()).toBe(false);
    for (const call of [
      async () => doomed.getInfo(),
      async () => doomed.setTimeout(1000),
      async () => doomed.pause(),
      async () => doomed.createSnapshot(),
      async () => doomed.connect(),
      async () => doomed.updateNetwork({}),
    ]) {
      await expect(call()).rejects.toThrow(/not found/);
    }
  });

  test("it ends by itself when its time is over", async () => {
    const short = await sdk.Sandbox.create("base", { ...service.options, timeoutMs: 1000 });
    await expect.poll(async () => short.isRunning(), { timeout: 10_000 }).toBe(false);
  });

  test("what cannot be is refused with an error of its own", async () => {
    const { Sandbox: Class } = sdk;
    await expect(Class.create("no-such-template", service.options)).rejects.toThrow(/not found/);
    const missing = "i00000000000000000000";
    await expect(Class.connect(missing, service.options)).rejects.toThrow(/not found/);
    const wrongKey = { ...service.options, apiKey: `e2b_${"0".repeat(40)}` };
    await expect(Class.create("base", wrongKey)).rejects.toBeInstanceOf(sdk.AuthenticationError);
    const tooLong = { ...service.options, timeoutMs: 100_000_000 };
    await expect(Class.create("base", tooLong)).rejects.toThrow(/24 hours/);
  });
});
