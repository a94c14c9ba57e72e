/**
 * Snapshots and forks with running programs, by the official client on sandboxes with a kernel of
 * their own; where no such runtime is installed, the one test says what is answered instead.
 */

import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Sandbox, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "../../src/common/schema.ts";
import { takeCensus, type Census } from "../support/census.ts";
import { MEMORY_STEPS } from "../support/faults/fault-cases.ts";
import { openFaultHome, type FaultHome } from "../support/faults/fault-home.ts";
import { COUNTER } from "../support/faults/memory-counter.ts";
import { gvisorRuntime } from "../support/runtimes.ts";
import { startServe, type TestServe } from "../support/serve.ts";

const runtime = gvisorRuntime();
const LIMIT_MS = 60_000;

function gvisorFlags(path: string): string[] {
  return ["--runtime", path, "--require-isolation", "gvisor", "--pool", "0"];
}

let before: Census;
let serve: TestServe;
let options: SandboxOpts;

beforeAll(async () => {
  before = await takeCensus();
  serve = await startServe(runtime === undefined ? ["--pool", "0"] : gvisorFlags(runtime));
  options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
});

afterAll(async () => {
  await serve[Symbol.asyncDispose]();
  assert.deepEqual(await takeCensus(serve.home), before);
});

/** A reply of the control API, with the fields that the client does not know. */
async function post(path: string, body: unknown): Promise<{ status: number; reply: unknown }> {
  const response = await fetch(`${serve.url}${path}`, {
    method: "POST",
    headers: { "x-api-key": serve.apiKey, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, reply: await response.json() };
}

/** The images of memory in a home; none at all before the first. */
async function imagesOf(home: string): Promise<string[]> {
  return readdir(join(home, "memory")).catch(() => []);
}

function idOf(reply: unknown): string {
  return z.object({ sandboxID: z.string() }).parse(reply).sandboxID;
}

async function tokenOf({ sandboxId }: Sandbox): Promise<string> {
  const { reply } = await post(`/sandboxes/${sandboxId}/connect`, { timeout: 300 });
  return z.object({ envdAccessToken: z.string() }).parse(reply).envdAccessToken;
}

/** The status of a call to the daemon of a sandbox with a token. */
async function enter({ sandboxId }: Sandbox, token: string): Promise<number> {
  const response = await fetch(`${serve.url}/envs`, {
    headers: {
      "e2b-sandbox-id": sandboxId,
      "e2b-sandbox-port": "49983",
      "x-access-token": token,
    },
  });
  await response.text();
  return response.status;
}

if (runtime === undefined) describeAbsence();
else describePresence(runtime);

function describeAbsence(): void {
  test("gVisor is not installed: a snapshot says that it has files alone, and so does its copy", async () => {
    const source = await Sandbox.create("base", options);
    const { status, reply } = await post(`/sandboxes/${source.sandboxId}/snapshots`, {
      name: "files",
    });
    const files = { memory: false, memoryReason: "the sandbox shares the kernel of its machine" };
    expect([status, reply]).toEqual([201, expect.objectContaining(files)]);
    const copy = await post("/sandboxes", { templateID: "files" });
    expect([copy.status, copy.reply]).toEqual([201, expect.objectContaining(files)]);
    await Sandbox.kill(idOf(copy.reply), options);
    await source.kill();
  });
}

async function ask(sandbox: Sandbox) {
  const { stdout } = await sandbox.commands.run("curl -s --max-time 20 127.0.0.1:8123");
  const [count = "", word = ""] = stdout.split(" ");
  return { count: Number(count), word };
}

async function startCounting(client: SandboxOpts): Promise<Sandbox> {
  const sandbox = await Sandbox.create("base", { ...client, timeoutMs: 300_000 });
  await sandbox.files.write("/home/user/count.py", COUNTER);
  await sandbox.commands.run("exec python3 count.py", { background: true });
  await vi.waitFor(async () => expect((await ask(sandbox)).word).not.toBe(""), LIMIT_MS);
  return sandbox;
}

function describePresence(path: string): void {
  describe("programs that run", () => {
    test("a snapshot has them, and a sandbox from it goes on with another name and token", async () => {
      const source = await startCounting(options);
      const first = await ask(source);
      const { status, reply } = await post(`/sandboxes/${source.sandboxId}/snapshots`, {
        name: "live",
      });
      expect([status, reply]).toEqual([201, expect.objectContaining({ memory: true })]);
      const copy = await Sandbox.create("live", { ...options, envs: { NEW: "yes" } });
      const [own, copied] = [await ask(source), await ask(copy)];
      expect([own.word, copied.word]).toEqual([first.word, first.word]);
      expect(Math.min(own.count, copied.count)).toBeGreaterThan(first.count);
      const told = await copy.commands.run("echo $E2B_SANDBOX_ID $NEW");
      expect(told.stdout).toBe(`${copy.sandboxId} yes\n`);
      const tokens = [await tokenOf(source), await tokenOf(copy)];
      expect(await Promise.all(tokens.map((token) => enter(copy, token)))).toEqual([401, 200]);
      expect(await Promise.all(tokens.map((token) => enter(source, token)))).toEqual([200, 401]);
      const files = await post("/sandboxes", { templateID: "live", memory: false });
      expect(files.reply).toMatchObject({
        memory: false,
        memoryReason: "files alone were asked for",
      });
      await Sandbox.kill(idOf(files.reply), options);
      await source.kill();
      await copy.kill();
    });

    test("forks go on each for itself, and no memory of them stays on the disk", async () => {
      const source = await startCounting(options);
      const first = await ask(source);
      const known = await imagesOf(serve.home);
      const forks = await source.fork({ count: 2, timeoutMs: 120_000 });
      expect(await imagesOf(serve.home)).toEqual(known);
      for (const fork of forks) {
        assert(fork instanceof Sandbox);
        expect((await ask(fork)).word).toBe(first.word);
        await fork.commands.run("pkill -f count.py");
      }
      expect((await ask(source)).word).toBe(first.word);
      await source.kill();
      await Promise.all(forks.map(async (fork) => fork instanceof Sandbox && fork.kill()));
    });
  });

  describe("a service that is killed while it takes a snapshot with memory", () => {
    let home: FaultHome;
    let source: Sandbox;
    let word: string;
    beforeAll(async () => {
      home = await openFaultHome(gvisorFlags(path));
      await home.start();
      source = await startCounting(home.client());
      ({ word } = await ask(source));
    }, LIMIT_MS);
    afterAll(async () => home[Symbol.asyncDispose]());

    test.for(MEMORY_STEPS)(
      "at %s: the sandbox runs on, and there is all of it or nothing",
      async (step) => {
        const images = async () => imagesOf(home.path);
        await home.plan({ step, action: "kill" });
        const route = `/sandboxes/${source.sandboxId}/snapshots`;
        expect(await home.call("POST", route, { name: "cut" })).toBe(undefined);
        await home.ended();
        expect(await home.takeHit()).toBe(true);
        await home.start();
        source = await Sandbox.connect(source.sandboxId, home.client());
        expect((await ask(source)).word).toBe(word);
        const isKept = step === MEMORY_STEPS.at(-1);
        await expect.poll(async () => (await images()).length).toBe(isKept ? 1 : 0);
        const listed = await home.call("GET", "/snapshots");
        expect(listed?.body).toHaveLength(isKept ? 1 : 0);
        if (!isKept) return;
        const copy = await Sandbox.create("cut", home.client());
        expect((await ask(copy)).word).toBe(word);
        await copy.kill();
        expect(await Sandbox.deleteSnapshot("cut", home.client())).toBe(true);
        await expect.poll(images).toEqual([]);
      },
    );
  });
}
