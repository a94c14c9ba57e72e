/**
 * `serve --pause-to-disk`: the memory of paused sandboxes with a kernel of their own is moved to disk,
 * where it outlives the service and every process; without such a runtime nothing is moved.
 */

import { appendFile, cp, readdir, readFile, rename, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findMarked } from "../support/census.ts";
import { takeIds } from "../support/engine/taken-ids.ts";
import { make, openFaultHome, type FaultHome } from "../support/faults/fault-home.ts";
import {
  containerOf,
  expectGoesOn,
  LEDGER_PORT,
  pauseOf,
  readLedger,
  startLedger,
  toLedger,
  untilOnDisk,
} from "../support/faults/ledger.ts";
import { rebootHome } from "../support/faults/sandbox-reboot.ts";
import { gvisorRuntime, runtimePath } from "../support/runtimes.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const runtime = gvisorRuntime();
const LIMIT_MS = 120_000;
const REPLACED = "the sandbox runs on another runsc than the one that is installed now";
const REFUSAL = { status: 409, body: { error_code: "sandbox_memory_not_restorable" } };

function gvisorFlags(path: string, when: string): string[] {
  const level = ["--runtime", path, "--require-isolation", "gvisor"];
  return [...level, "--pool", "0", "--pause-to-disk", when];
}

/** Below a folder, with permissions. */
async function modesOf(folder: string): Promise<Record<string, string>> {
  const names = await readdir(folder, { recursive: true });
  const modes = ["", ...names].map(async (name) => {
    const { mode } = await stat(join(folder, name));
    return [name, (mode & 0o7777).toString(8)] as const;
  });
  return Object.fromEntries(await Promise.all(modes));
}

if (runtime === undefined) describeAbsence();
else describePresence(runtime);

function describeAbsence(): void {
  test("gVisor is not installed: the memory of a paused sandbox stays in its processes", async () => {
    await using home = await openFaultHome(["--pool", "0", "--pause-to-disk", "after=0,exit"]);
    await home.start();
    const id = await make(home);
    await home.call("POST", `/sandboxes/${id}/pause`);
    await home.stop("SIGTERM");
    await home.start();
    const inProcess = { state: "paused", pauseMode: "full", pausedMemory: "process" };
    expect(await pauseOf(home, id)).toEqual(inProcess);
    expect((await home.call("DELETE", `/sandboxes/${id}`))?.status).toBe(204);
  });
}

function describePresence(path: string): void {
  describe("moved at once", () => {
    let home: FaultHome;
    beforeAll(async () => {
      home = await openFaultHome(gvisorFlags(path, "after=0"));
      await home.start();
    }, LIMIT_MS);
    afterAll(() => home[Symbol.asyncDispose]());

    test("a program goes on after every process has ended", { timeout: LIMIT_MS }, async () => {
      const sandbox = await startLedger(home);
      const { sandboxId } = sandbox;
      const before = await readLedger(sandbox);
      await sandbox.pause();
      await untilOnDisk(home, sandboxId);
      const marked = await findMarked(containerOf(home, sandboxId));
      expect([marked.processes, marked.mounts, marked.loopDevices]).toEqual([[], [], []]);
      const { saved, ...modes } = await modesOf(containerOf(home, sandboxId));
      expect(saved).toBe("700");
      const images = Object.entries(modes).filter(([name]) => name.startsWith("saved/"));
      const files = images.filter(([name]) => /\/image\/|\.json$/.test(name));
      expect(files.length).toBeGreaterThan(1);
      for (const [name, mode] of images) expect(mode).toBe(/\.\w+$/.test(name) ? "600" : "700");
      await rebootHome(home);
      await home.start();
      await untilOnDisk(home, sandboxId);
      const again = await expectGoesOn(home, sandboxId, before);
      expect(await readdir(containerOf(home, sandboxId))).not.toContain("saved");
      await again.pause();
      await untilOnDisk(home, sandboxId);
      const last = await expectGoesOn(home, sandboxId, before);
      await last.kill();
      await expect.poll(() => readdir(join(home.path, "instances/serve/s"))).toEqual([]);
    });

    test("traffic resumes it", { timeout: LIMIT_MS }, async () => {
      const lifecycle = { onTimeout: "pause", autoResume: true } as const;
      const sandbox = await startLedger(home, { lifecycle });
      const before = await readLedger(sandbox);
      await sandbox.pause();
      await untilOnDisk(home, sandbox.sandboxId);
      const reply = await fetch(home.client().sandboxUrl, {
        headers: { "e2b-sandbox-id": sandbox.sandboxId, "e2b-sandbox-port": `${LEDGER_PORT}` },
      });
      expect([reply.status, toLedger(await reply.text()).word]).toEqual([200, before.word]);
      await sandbox.kill();
    });

    test(
      "an image that is damaged is refused, and files are there",
      { timeout: LIMIT_MS },
      async () => {
        const sandbox = await startLedger(home);
        const { sandboxId } = sandbox;
        await sandbox.files.write("/home/user/kept.txt", "kept");
        await sandbox.pause();
        await untilOnDisk(home, sandboxId);
        const image = join(containerOf(home, sandboxId), "saved/memory/image");
        for (const name of await readdir(image)) await truncate(join(image, name), 100);
        const connect = `/sandboxes/${sandboxId}/connect`;
        for (const round of [1, 2]) {
          expect([round, await home.call("POST", connect, { timeout: 300 })]).toMatchObject([
            round,
            REFUSAL,
          ]);
          await untilOnDisk(home, sandboxId);
          expect(await readdir(image)).not.toEqual([]);
          const record = await readFile(
            join(containerOf(home, sandboxId), "container.json"),
            "utf8",
          );
          expect([round, record]).toEqual([round, expect.not.stringContaining("unsyncedSince")]);
        }
        const booted = await home.call("POST", connect, { timeout: 300, memory: false });
        expect(booted).toMatchObject({ status: 201 });
        const again = await Sandbox.connect(sandboxId, home.client());
        expect(await again.files.read("/home/user/kept.txt")).toBe("kept");
        expect((await readLedger(again)).word).toBe("");
        expect(await readdir(containerOf(home, sandboxId))).not.toContain("saved");
        await again.kill();
      },
    );

    test("ended while it is paused, nothing of it is left", { timeout: LIMIT_MS }, async () => {
      const sandbox = await startLedger(home);
      await sandbox.pause();
      await untilOnDisk(home, sandbox.sandboxId);
      await sandbox.kill();
      await expect.poll(() => readdir(join(home.path, "instances/serve/s"))).toEqual([]);
    });

    test("what cannot be saved stays paused in its process", { timeout: LIMIT_MS }, async () => {
      const sandbox = await startLedger(home);
      const { sandboxId } = sandbox;
      const hold = "exec 9>/tmp/gone; rm /tmp/gone; sleep 1000";
      await sandbox.commands.run(hold, { background: true, timeoutMs: 0 });
      const before = await readLedger(sandbox);
      await sandbox.pause();
      // Versions of the runtime differ in whether they save such a file.
      const end = async () => {
        const logs = JSON.stringify((await home.call("GET", `/sandboxes/${sandboxId}/logs`))?.body);
        return /Memory (?:moved to disk|could not be moved to disk)/.test(logs);
      };
      await expect.poll(end, { timeout: LIMIT_MS }).toBe(true);
      expect((await pauseOf(home, sandboxId)).pauseMode).toBe("full");
      await (await expectGoesOn(home, sandboxId, before)).kill();
    });
  });

  describe("moved at the end", () => {
    test("it goes on with the same runtime alone", { timeout: LIMIT_MS }, async () => {
      await using folder = await makeTempFolder();
      const other = join(folder.path, "runsc");
      await cp(path, other);
      const flags = gvisorFlags(other, "exit");
      await using home = await openFaultHome(flags);
      await home.start();
      const sandbox = await startLedger(home);
      const { sandboxId } = sandbox;
      const before = await readLedger(sandbox);
      await sandbox.pause();
      expect((await pauseOf(home, sandboxId)).pausedMemory).toBe("process");
      await home.stop("SIGTERM");
      await home.start();
      await untilOnDisk(home, sandboxId);
      await (await expectGoesOn(home, sandboxId, before)).pause();
      await home.stop("SIGTERM");
      await appendFile(other, "\0");
      await home.start();
      await untilOnDisk(home, sandboxId);
      const connect = `/sandboxes/${sandboxId}/connect`;
      expect(await home.call("POST", connect, { timeout: 300 })).toMatchObject(REFUSAL);
      await home.stop("SIGTERM");
      await truncate(other, (await stat(other)).size - 1);
      await home.start();
      await (await expectGoesOn(home, sandboxId, before)).kill();
    });

    test(
      "it goes on with other user ids where its own are taken",
      { timeout: LIMIT_MS },
      async () => {
        await using home = await openFaultHome(gvisorFlags(path, "exit"));
        await home.start();
        const sandbox = await startLedger(home);
        const { sandboxId } = sandbox;
        const before = await readLedger(sandbox);
        await sandbox.pause();
        await home.stop("SIGTERM");
        await using taken = await takeIds(containerOf(home, sandboxId));
        expect(taken).toBeDefined();
        await home.start();
        await untilOnDisk(home, sandboxId);
        await (await expectGoesOn(home, sandboxId, before)).kill();
      },
    );

    test("on a runtime that was replaced it stays where it is", { timeout: LIMIT_MS }, async () => {
      await using folder = await makeTempFolder();
      const [other, next] = [join(folder.path, "runsc"), join(folder.path, "next")];
      for (const copy of [other, next]) await cp(path, copy);
      await using home = await openFaultHome(gvisorFlags(other, "exit"));
      await home.start();
      const sandbox = await startLedger(home);
      const { sandboxId } = sandbox;
      const before = await readLedger(sandbox);
      await rename(next, other);
      const snapshot = await home.call("POST", `/sandboxes/${sandboxId}/snapshots`, {});
      expect(snapshot?.body).toMatchObject({ memory: false, memoryReason: REPLACED });
      await sandbox.pause();
      await home.stop("SIGTERM");
      await home.start();
      expect((await pauseOf(home, sandboxId)).pausedMemory).toBe("process");
      await (await expectGoesOn(home, sandboxId, before)).kill();
    });

    test.skipIf(runtimePath("runsc") !== undefined)(
      "a service without the runtime finds it and starts it with the runtime alone",
      { timeout: LIMIT_MS },
      async () => {
        const own = gvisorFlags(path, "exit");
        const flags = [...own];
        await using home = await openFaultHome(flags);
        await home.start();
        const sandbox = await startLedger(home);
        const { sandboxId } = sandbox;
        const before = await readLedger(sandbox);
        await sandbox.pause();
        await home.stop("SIGTERM");
        flags.splice(0, flags.length, "--pool", "0");
        await home.start();
        await untilOnDisk(home, sandboxId);
        const connect = `/sandboxes/${sandboxId}/connect`;
        expect(await home.call("POST", connect, { timeout: 300 })).toMatchObject(REFUSAL);
        const files = await home.call("POST", connect, { timeout: 300, memory: false });
        expect(files).toMatchObject({ status: 503 });
        await untilOnDisk(home, sandboxId);
        await home.stop("SIGTERM");
        flags.splice(0, flags.length, ...own);
        await home.start();
        await (await expectGoesOn(home, sandboxId, before)).kill();
      },
    );
  });
}
