/** Folders watched through the public clients. */

import type { FilesystemEvent, Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MATRIX_RELEASES, useSdkServe } from "../../support/clients/sdk.ts";

type WatchOptions = NonNullable<Parameters<Sandbox["files"]["watchDir"]>[2]>;

const service = useSdkServe();

describe.each(MATRIX_RELEASES)("e2b $release", ({ sdk }) => {
  let sandbox: Sandbox;

  beforeAll(async () => {
    sandbox = await sdk.Sandbox.create("base", service.options);
  });

  afterAll(async () => sandbox.kill());

  /** Watches a folder and keeps its events as `type name`. */
  async function watch(path: string, options: WatchOptions = {}) {
    const events: FilesystemEvent[] = [];
    const handle = await sandbox.files.watchDir(path, (event) => void events.push(event), options);
    return {
      events,
      said: () => events.map((event) => `${event.type} ${event.name}`),
      [Symbol.asyncDispose]: async () => handle.stop(),
    };
  }

  test("a change in the folder is reported with the bare name", async () => {
    await sandbox.files.write("plain/kept.txt", "before");
    await using watched = await watch("plain");
    await sandbox.files.write("plain/kept.txt", "after");
    await expect.poll(watched.said).toContain("write kept.txt");
    expect(watched.said()).not.toContain("create kept.txt");
    await sandbox.files.write("plain/fresh.txt", "x");
    await expect.poll(watched.said).toContain("create fresh.txt");
    await sandbox.files.rename("plain/fresh.txt", "plain/other.txt");
    await expect.poll(watched.said).toContain("create other.txt");
    expect(watched.said()).toContain("rename fresh.txt");
    await sandbox.files.remove("plain/other.txt");
    await expect.poll(watched.said).toContain("remove other.txt");
    await sandbox.commands.run("chmod 600 plain/kept.txt");
    await expect.poll(watched.said).toContain("chmod kept.txt");
  });

  test("a change below is reported to a recursive watch alone", async () => {
    await sandbox.files.write("deep/inner/kept.txt", "before");
    await using flat = await watch("deep");
    await using recursive = await watch("deep", { recursive: true });
    await sandbox.files.write("deep/inner/kept.txt", "after");
    await expect.poll(recursive.said).toContain("write inner/kept.txt");
    await sandbox.files.write("deep/last.txt", "x");
    await expect.poll(flat.said).toContain("create last.txt");
    expect(flat.said().filter((line) => line.includes("kept"))).toEqual([]);
  });

  test("a new folder below is reported, and then what is written in it", async () => {
    await sandbox.files.makeDir("growing");
    await using watched = await watch("growing", { recursive: true });
    await sandbox.files.makeDir("growing/young/younger");
    await expect.poll(watched.said).toContain("create young");
    await sandbox.files.write("growing/young/younger/file.txt", "x");
    await expect.poll(watched.said).toContain("write young/younger/file.txt");
  });

  test("events bring their entry when asked, and none without", async () => {
    await sandbox.files.makeDir("entries");
    await using bare = await watch("entries");
    await using full = await watch("entries", { includeEntry: true });
    await sandbox.files.write("entries/new.txt", "12345");
    const writes = () =>
      full.events.filter((event) => event.type === sdk.FilesystemEventType.WRITE);
    // A look between the file's making and its content tells of an empty one first.
    await expect
      .poll(() => writes().at(-1)?.entry)
      .toMatchObject({
        name: "new.txt",
        path: "/home/user/entries/new.txt",
        type: "file",
        size: 5,
        owner: "user",
      });
    await sandbox.files.remove("entries/new.txt");
    await sandbox.files.write("entries/new.txt", "again");
    await expect.poll(full.said).toContain("remove new.txt");
    const removed = full.events.find((event) => event.type === sdk.FilesystemEventType.REMOVE);
    expect(removed?.entry).toBeUndefined();
    await expect.poll(bare.said).toContain("remove new.txt");
    expect(bare.events.filter((event) => event.entry !== undefined)).toEqual([]);
  });

  test("the flag for network mounts changes nothing on an ordinary folder", async () => {
    await sandbox.files.makeDir("ordinary");
    await using watched = await watch("ordinary", { allowNetworkMounts: true });
    await sandbox.files.write("ordinary/x.txt", "x");
    await expect.poll(watched.said).toContain("create x.txt");
  });

  test("a stopped watch says so once and reports nothing more", async () => {
    await sandbox.files.makeDir("stopping");
    const exits: unknown[] = [];
    const events: string[] = [];
    const handle = await sandbox.files.watchDir(
      "stopping",
      (event) => void events.push(event.name),
      { onExit: (error) => void exits.push(error) },
    );
    await handle.stop();
    await expect.poll(() => exits).toHaveLength(1);
    await sandbox.files.write("stopping/late.txt", "x");
    expect(events).toEqual([]);
  });

  test("a watch ends at its deadline with a timeout error", async () => {
    await sandbox.files.makeDir("short");
    const exits: unknown[] = [];
    await sandbox.files.watchDir("short", () => {}, {
      timeoutMs: 2_000,
      onExit: (error) => void exits.push(error),
    });
    await expect.poll(() => exits, { timeout: 10_000 }).toHaveLength(1);
    expect(exits[0]).toBeInstanceOf(sdk.TimeoutError);
  });

  test("a missing folder and a file are refused, each with its class", async () => {
    const missing = sandbox.files.watchDir("missing-folder", () => {});
    await expect(missing).rejects.toThrow(sdk.FileNotFoundError);
    await sandbox.files.write("a-file", "x");
    const file = sandbox.files.watchDir("a-file", () => {});
    await expect(file).rejects.toThrow(sdk.SandboxError);
    await expect(file).rejects.toThrow("path /home/user/a-file not a directory:");
  });
});
