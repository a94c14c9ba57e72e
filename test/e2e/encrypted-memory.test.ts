/**
 * `serve --encrypt-snapshots`: what programs had in memory is in no file of the home as it was, and
 * goes on with the key of the home alone; without a kernel of its own nothing of it happens.
 */

import { open, readdir, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { make, openFaultHome, type FaultHome } from "../support/faults/fault-home.ts";
import {
  containerOf,
  expectGoesOn,
  pauseOf,
  readLedger,
  startLedger,
  untilOnDisk,
} from "../support/faults/ledger.ts";
import { filesWith, imageFiles, imageMounts } from "../support/faults/memory-images.ts";
import { rebootHome } from "../support/faults/sandbox-reboot.ts";
import { gvisorRuntime } from "../support/runtimes.ts";

const runtime = gvisorRuntime();
const LIMIT_MS = 180_000;
const ENCRYPT = "--encrypt-snapshots";

if (runtime === undefined) describeAbsence();
else describePresence(["--runtime", runtime, "--require-isolation", "gvisor", "--pool", "0"]);

function describeAbsence(): void {
  test("gVisor is not installed: nothing is encrypted, and no key is made", async () => {
    await using home = await openFaultHome(["--pool", "0", "--pause-to-disk", "0", ENCRYPT]);
    await home.start();
    const id = await make(home);
    const shot = await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "files" });
    const memoryReason = "the sandbox shares the kernel of its machine";
    expect(shot).toMatchObject({ status: 201, body: { memory: false, memoryReason } });
    await home.call("POST", `/sandboxes/${id}/pause`);
    expect((await pauseOf(home, id)).pausedMemory).toBe("process");
    expect(await readdir(home.path)).not.toContain("memory-key");
    expect((await home.call("DELETE", `/sandboxes/${id}`))?.status).toBe(204);
  });
}

function sealedFile(home: FaultHome, id: string): string {
  return join(containerOf(home, id), "saved/memory/image/sealed");
}

const refusal = (reason: string) => ({
  status: 409,
  body: {
    error_code: "sandbox_memory_not_restorable",
    message: expect.stringContaining(`memory cannot be restored: ${reason}`),
  },
});

function describePresence(level: readonly string[]): void {
  describe("encrypted memory", () => {
    const flags = [...level, "--pause-to-disk", "0", ENCRYPT];
    let home: FaultHome;
    beforeAll(async () => {
      home = await openFaultHome(flags);
      await home.start();
    }, LIMIT_MS);
    afterAll(() => home[Symbol.asyncDispose]());

    const connect = async (id: string, wishes: object = {}) =>
      home.call("POST", `/sandboxes/${id}/connect`, { timeout: 300, ...wishes });

    test(
      "a pause and a snapshot go on, and have no word of the program",
      { timeout: LIMIT_MS },
      async () => {
        const sandbox = await startLedger(home);
        const { sandboxId } = sandbox;
        const before = await readLedger(sandbox);
        const shot = await home.call("POST", `/sandboxes/${sandboxId}/snapshots`, {
          name: "sealed",
        });
        expect(shot).toMatchObject({ status: 201, body: { memory: true } });
        await sandbox.pause();
        await untilOnDisk(home, sandboxId);
        expect((await imageFiles(home)).length).toBeGreaterThan(3);
        expect(await filesWith(home, before.word)).toEqual([]);
        expect(await imageMounts(home)).toBe("0");
        await rebootHome(home);
        await home.start();
        await untilOnDisk(home, sandboxId);
        const again = await expectGoesOn(home, sandboxId, before);
        const forks = await again.fork({ count: 2, timeoutMs: 120_000 });
        const copy = await Sandbox.create("sealed", home.client());
        const copies = [...forks, copy].filter((made) => made instanceof Sandbox);
        for (const made of copies) expect((await readLedger(made)).word).toBe(before.word);
        expect(copies).toHaveLength(3);
        await Promise.all([...copies, again].map(async (made) => made.kill()));
        await Sandbox.deleteSnapshot("sealed", home.client());
        await expect.poll(() => imageFiles(home)).toEqual([]);
      },
    );

    test(
      "a key that is gone or another, or a damaged image, starts nothing",
      { timeout: LIMIT_MS },
      async () => {
        const sandbox = await startLedger(home);
        const { sandboxId } = sandbox;
        const before = await readLedger(sandbox);
        await sandbox.pause();
        await untilOnDisk(home, sandboxId);
        const key = join(home.path, "memory-key");
        await rename(key, `${key}.kept`);
        expect(await connect(sandboxId)).toMatchObject(refusal("the key of this home is gone"));
        await writeFile(key, Buffer.alloc(32));
        expect(await connect(sandboxId)).toMatchObject(
          refusal("it was encrypted with another key"),
        );
        await rename(`${key}.kept`, key);
        await (await expectGoesOn(home, sandboxId, before)).pause();
        await untilOnDisk(home, sandboxId);
        const { size } = await stat(sealedFile(home, sandboxId));
        await using file = await open(sealedFile(home, sandboxId), "r+");
        const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1_000);
        const kept = Buffer.from(buffer);
        const change = async (byte: number) => file.write(Buffer.from([byte]), 0, 1, size - 1_000);
        await change((kept[0] ?? 0) ^ 1);
        for (const round of [1, 2]) {
          const refused = await connect(sandboxId);
          expect([round, refused]).toMatchObject([round, refusal("its image is damaged")]);
          await untilOnDisk(home, sandboxId);
        }
        await change(kept[0] ?? 0);
        await (await expectGoesOn(home, sandboxId, before)).pause();
        await untilOnDisk(home, sandboxId);
        await change(0);
        await change(1);
        await file.truncate(size - 1);
        expect((await connect(sandboxId, { memory: false }))?.status).toBe(201);
        const booted = await Sandbox.connect(sandboxId, home.client());
        expect((await readLedger(booted)).word).toBe("");
        await booted.kill();
      },
    );
  });

  test("an image goes on whether the service encrypts or not", { timeout: LIMIT_MS }, async () => {
    const flags = [...level, "--pause-to-disk", "exit"];
    await using home = await openFaultHome(flags);
    await home.start();
    const sandbox = await startLedger(home);
    const { sandboxId } = sandbox;
    const before = await readLedger(sandbox);
    await sandbox.pause();
    await home.stop("SIGTERM");
    // What the search finds where nothing is encrypted.
    expect(await filesWith(home, before.word)).not.toEqual([]);
    flags.push(ENCRYPT);
    await home.start();
    await (await expectGoesOn(home, sandboxId, before)).pause();
    await home.stop("SIGTERM");
    expect(await filesWith(home, before.word)).toEqual([]);
    flags.pop();
    await home.start();
    await (await expectGoesOn(home, sandboxId, before)).kill();
  });
}
