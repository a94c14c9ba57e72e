/**
 * Memory of containers with a kernel of their own: what runs in a snapshot goes on in its copies.
 * Where no such runtime is installed, one test says so, and what the engine answers then.
 */

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Container, Layer } from "../../../src/engine/engine.ts";
import { atStep } from "../../support/at-step.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { startOciHost, type OciHost } from "../../support/engine/oci-host.ts";
import { initDaemon, runInside } from "../../support/engine/run-inside.ts";
import { COUNTER } from "../../support/faults/memory-counter.ts";
import { openSmallDisk, type SmallDisk } from "../../support/faults/small-disk.ts";
import { gvisorRuntime } from "../../support/runtimes.ts";

const run = promisify(execFile);
const LIMIT_MS = 60_000;
const runtime = gvisorRuntime();
if (runtime === undefined) describeAbsence();
else describePresence(runtime);

function describeAbsence(): void {
  test("gVisor is not installed: copies have files alone, and no memory is restored", async () => {
    await using host = await startOciHost("auto");
    await using container = await host.create();
    expect(container.memoryFault).toBe("the sandbox shares the kernel of its machine");
    const place = { files: join(host.home, "files"), memory: join(host.home, "memory") };
    await expect(container.snapshot(place.files, place.memory)).rejects.toMatchObject({
      code: "unimplemented",
    });
    const refused = { code: "failed_precondition", word: "sandbox_memory_not_restorable" };
    for (const isolation of [undefined, "gvisor"] as const) {
      const created = host.create({ memory: place.memory, isolation });
      await expect(created).rejects.toMatchObject(refused);
    }
    expect(await readdir(host.home)).not.toContain("memory");
  });
}

const ASK = "curl -s --max-time 20 http://127.0.0.1:8123/";

interface Counted {
  readonly count: number;
  readonly word: string;
}

async function ask(container: Container): Promise<Counted> {
  const { stdout } = await runInside(container, ASK);
  const [count = "", word = ""] = stdout.split(" ");
  return { count: Number(count), word };
}

/** A file system too small for any image. */
async function openFullPlace(path: string): Promise<AsyncDisposable & { readonly path: string }> {
  await mkdir(path);
  await run("mount", ["-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", path]);
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      await run("umount", [path]);
      await rm(path, { recursive: true });
    },
  };
}

function describePresence(path: string): void {
  describe("memory of a container with a kernel of its own", () => {
    let host: OciHost;
    let layers: readonly Layer[];
    let source: Container;
    beforeAll(async () => {
      host = await startOciHost(path, "gvisor");
      layers = await baseLayers();
      source = await host.create({ layers });
      await initDaemon(source);
      await runInside(source, `cat >/tmp/count.py <<'END'\n${COUNTER}\nEND`);
      await runInside(source, "setsid python3 /tmp/count.py >/tmp/log 2>&1 </dev/null &");
      await vi.waitFor(async () => expect((await ask(source)).word).not.toBe(""), LIMIT_MS);
    }, LIMIT_MS);
    afterAll(async () => host[Symbol.asyncDispose]());

    test("a program counts on in a copy and in its source, each for itself", async () => {
      const before = await ask(source);
      const [files, memory] = [join(host.home, "files"), join(host.home, "memory")];
      const layer = await source.snapshot(files, memory);
      await using copy = await host.create({ layers: [...layers, layer], memory });
      await initDaemon(copy);
      const [own, copied] = [await ask(source), await ask(copy)];
      expect([own.word, copied.word]).toEqual([before.word, before.word]);
      expect(own.count).toBeGreaterThan(before.count);
      expect(copied.count).toBeGreaterThan(before.count);
      expect((await stat(memory)).mode & 0o777).toBe(0o700);
      for (const name of await readdir(join(memory, "image"))) {
        expect((await stat(join(memory, "image", name))).mode & 0o777).toBe(0o600);
      }
    });

    test("connections of the host are cut for the moment, and new ones come about", async () => {
      const old = await source.dialControl(AbortSignal.timeout(LIMIT_MS));
      const place = { files: join(host.home, "cut"), memory: join(host.home, "cut-memory") };
      await source.snapshot(place.files, place.memory);
      expect(old.closed).toBe(true);
      expect((await runInside(source, "echo on")).stdout).toBe("on\n");
    });

    test("memory that cannot be saved leaves a container that runs, and nothing of the copy", async () => {
      await using full = await openFullPlace(join(host.home, "full"));
      const { word } = await ask(source);
      const files = join(host.home, "held");
      await expect(source.snapshot(files, join(full.path, "memory"))).rejects.toMatchObject({
        code: "unavailable",
        message: "memory was not saved",
      });
      const left = (await readdir(host.home)).filter((name) => name.startsWith("held"));
      expect([left, await readdir(full.path)]).toEqual([[], []]);
      expect((await ask(source)).word).toBe(word);
      await source.snapshot(files, join(host.home, "held-memory"));
    });

    test("an image of another runtime, or a damaged one, starts nothing", async () => {
      const place = { files: join(host.home, "old"), memory: join(host.home, "old-memory") };
      const layer = await source.snapshot(place.files, place.memory);
      const noteFile = join(place.memory, "memory.json");
      const note = await readFile(noteFile, "utf8");
      const image = join(place.memory, "image", "checkpoint.img");
      const damages = [
        async () => writeFile(noteFile, note.replace(/"runtime":"../, '"runtime":"zz')),
        async () => writeFile(noteFile, "{}"),
        // The note is right, and what it stands beside is not.
        async () => writeFile(noteFile, note).then(() => truncate(image, 100)),
      ];
      const before = await readdir(host.home);
      for (const damage of damages) {
        await damage();
        const created = host.create({ layers: [...layers, layer], memory: place.memory });
        await expect(created).rejects.toMatchObject({
          code: "failed_precondition",
          word: "sandbox_memory_not_restorable",
        });
      }
      expect(await readdir(host.home)).toEqual(before);
    });

    test("a copy with less memory than its programs have is refused for that reason", async () => {
      const place = { files: join(host.home, "much"), memory: join(host.home, "much-memory") };
      await using much = await host.create({ layers });
      await initDaemon(much);
      const large = `import time\nx = bytearray(b"z") * 140_000_000\nopen("/tmp/large", "w")\ntime.sleep(3600)`;
      await runInside(much, `cat >/tmp/large.py <<'END'\n${large}\nEND`);
      await runInside(much, "setsid python3 /tmp/large.py >/tmp/log 2>&1 </dev/null &");
      const made = async () => (await runInside(much, "ls /tmp/large")).stdout;
      await expect.poll(made).toBe("/tmp/large\n");
      const layer = await much.snapshot(place.files, place.memory);
      const before = await readdir(host.home);
      const limits = { memoryMb: 96 };
      const copy = { layers: [...layers, layer], memory: place.memory, limits };
      await expect(host.create(copy)).rejects.toMatchObject({
        code: "failed_precondition",
        word: "sandbox_memory_not_restorable",
        message: "memory cannot be restored: it takes more than the 96 MB of the sandbox",
      });
      expect(await readdir(host.home)).toEqual(before);
    });

    test("a copy goes on without its source, and takes part in all that a container does", async () => {
      const place = { files: join(host.home, "own"), memory: join(host.home, "own-memory") };
      const first = await host.create({ layers });
      await initDaemon(first);
      await runInside(
        first,
        "(while :; do date +%s%N >/tmp/now; sleep 0.02; done) >/dev/null 2>&1 &",
      );
      const layer = await first.snapshot(place.files, place.memory);
      await first[Symbol.asyncDispose]();
      await using copy = await host.create({ layers: [...layers, layer], memory: place.memory });
      await initDaemon(copy);
      const now = async () => (await runInside(copy, "cat /tmp/now")).stdout;
      const start = await now();
      await expect.poll(now).not.toBe(start);
      await copy.pause();
      await copy.resume();
      // A copy of the copy, files and memory.
      const second = { files: join(host.home, "second"), memory: join(host.home, "second-memory") };
      const upper = await copy.snapshot(second.files, second.memory);
      await copy.halt();
      await copy.boot(host.specOf(copy.id), AbortSignal.timeout(LIMIT_MS));
      await initDaemon(copy);
      expect((await runInside(copy, "pgrep -f '[%]s%N' || echo none")).stdout).toBe("none\n");
      const all = [...layers, layer, upper];
      await using grandchild = await host.create({ layers: all, memory: second.memory });
      await initDaemon(grandchild);
      const later = (await runInside(grandchild, "cat /tmp/now")).stdout;
      await expect
        .poll(async () => (await runInside(grandchild, "cat /tmp/now")).stdout)
        .not.toBe(later);
    });
  });

  test("a disk that gets full during the trial of memory is not taken for a runsc without it", async () => {
    let disk: SmallDisk | undefined;
    const openDisk = async () => (disk = await openSmallDisk());
    await using host = await startOciHost(path, "gvisor", openDisk);
    using filled = atStep("layer.begun", async () => disk?.fill(0));
    await expect(host.engine.probe()).rejects.toMatchObject({ code: "resource_exhausted" });
    expect(filled.wasReached).toBe(true);
    await disk?.free();
    const { checks } = await host.engine.probe();
    const trial = checks.find(({ name }) => name === `runtime ${path}`);
    expect(trial?.detail).toContain("memory saved and restored");
  });
}
