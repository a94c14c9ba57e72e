/** What every service does for its client, wherever it runs and however it is reached. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { ProcessEvent } from "../../src/client/process.ts";
import type { Service } from "../../src/client/service.ts";

const LIMIT_MS = 60_000;
const SECONDS = 300;

/** A running service and two clients of it. */
export interface ServiceHost extends AsyncDisposable {
  readonly service: Service;
  /** The same service, asked with a key that it did not give. */
  readonly stranger: Service;
}

/** What a kind of service may lack; it is then refused in words. */
export interface Abilities {
  readonly canPause: boolean;
}

/** Adds the suite for one service to the block around it. */
export function describeService(
  start: () => Promise<ServiceHost>,
  abilities: Abilities = { canPause: true },
): void {
  let host: ServiceHost;

  beforeAll(async () => {
    host = await start();
  }, LIMIT_MS);
  afterAll(async () => host[Symbol.asyncDispose]());

  describeSandboxes(() => host);
  if (abilities.canPause) describePause(() => host);
  else describeNoPause(() => host);
  describeInside(() => host.service);
}

function describeSandboxes(host: () => ServiceHost): void {
  test("a sandbox is listed and described until it is killed", async () => {
    const { control } = host().service;
    const metadata = { run: "suite" };
    const { sandboxID } = await control.create(wish({ metadata }), limit());
    const listed = async () =>
      (await control.list({ metadata }, limit())).sandboxes.map(({ sandboxID: id }) => id);
    expect(await listed()).toEqual([sandboxID]);
    expect(await control.get(sandboxID, limit())).toMatchObject({ sandboxID, state: "running" });
    expect(await control.kill(sandboxID, limit())).toBe(true);
    expect(await control.kill(sandboxID, limit())).toBe(false);
    expect(await listed()).toEqual([]);
    await expect(control.get(sandboxID, limit())).rejects.toMatchObject({ code: "not_found" });
  });

  test("a template that is not there and a malformed id are told apart", async () => {
    const { service } = host();
    const creating = service.control.create({ templateID: "absent" }, limit());
    await expect(creating).rejects.toMatchObject({ code: "not_found" });
    await expect(service.attach("not an id", limit())).rejects.toMatchObject({
      code: "invalid_argument",
    });
  });

  test("another key reaches nothing", async () => {
    const { control } = host().stranger;
    await expect(control.list({}, limit())).rejects.toMatchObject({ code: "unauthenticated" });
    const creating = control.create(wish(), limit());
    await expect(creating).rejects.toMatchObject({ code: "unauthenticated" });
  });

  test("a sandbox whose time is over is gone", async () => {
    const { control } = host().service;
    const { sandboxID } = await control.create(wish(), limit());
    await control.setTimeout(sandboxID, 0, limit());
    await expect
      .poll(async () => control.get(sandboxID, limit()).catch((error: unknown) => error))
      .toMatchObject({ code: "not_found" });
  });
}

function describeNoPause(host: () => ServiceHost): void {
  test("a pause is refused, and the sandbox runs on", async () => {
    const { service } = host();
    await using sandbox = await createSandbox(service);
    const { id } = sandbox;
    const pausing = service.control.pause(id, true, limit());
    await expect(pausing).rejects.toMatchObject({ code: "unimplemented" });
    expect(await service.control.get(id, limit())).toMatchObject({ state: "running" });
    const { wasResumed } = await service.control.connect(id, { timeout: SECONDS }, limit());
    expect([wasResumed, (await run(service, id, "echo on")).stdout]).toEqual([false, "on\n"]);
  });
}

function describePause(host: () => ServiceHost): void {
  test("a paused sandbox is resumed by connect, with its token", async () => {
    const { service } = host();
    await using sandbox = await createSandbox(service);
    const { id } = sandbox;
    expect(await service.control.pause(id, true, limit())).toMatchObject({ wasRunning: true });
    expect(await service.control.get(id, limit())).toMatchObject({ state: "paused" });
    const { wasResumed } = await service.control.connect(id, { timeout: SECONDS }, limit());
    expect([wasResumed, (await run(service, id, "echo on")).stdout]).toEqual([true, "on\n"]);
  });
}

function describeInside(service: () => Service): void {
  test("a process gives its output and its exit code", async () => {
    await using sandbox = await createSandbox(service());
    const outcome = await run(service(), sandbox.id, "echo out; echo err >&2; exit 3");
    expect(outcome).toEqual({ stdout: "out\n", stderr: "err\n", exitCode: 3 });
  });

  test("a file comes back as it was written, from any offset", async () => {
    await using sandbox = await createSandbox(service());
    const { files } = await service().attach(sandbox.id, limit());
    await files.write("deep/a b.bin", Buffer.from([0, 255, 10, 65]), { signal: limit() });
    const range = { offset: 1, limit: 2 };
    const slice = await files.read("deep/a b.bin", range, { signal: limit() });
    expect([[...slice.bytes], slice.sizeBytes]).toEqual([[255, 10], 4]);
    const absent = files.read("absent", range, { signal: limit() });
    await expect(absent).rejects.toMatchObject({ code: "not_found" });
  });

  test("a process takes input and a signal while it runs", async () => {
    await using sandbox = await createSandbox(service());
    const { process } = await service().attach(sandbox.id, limit());
    const request = { cmd: "cat", args: [], env: {}, hasStdin: true };
    const events = process.start(request, { signal: limit() });
    const first = await events.next();
    const pid = first.value?.type === "start" ? first.value.pid : 0;
    await process.sendInput(pid, [Buffer.from("typed")], limit());
    expect((await events.next()).value).toMatchObject({ type: "data", stream: "stdout" });
    await process.sendSignal(pid, "SIGKILL", limit());
    expect(await outcomeOf(events)).toMatchObject({ stdout: "", exitCode: expect.any(Number) });
  });

  test("a call into a sandbox that was killed says so", async () => {
    const sandbox = await createSandbox(service());
    const { filesystem } = await service().attach(sandbox.id, limit());
    await sandbox[Symbol.asyncDispose]();
    const late = filesystem.stat("/", { signal: limit() });
    await expect(late).rejects.toMatchObject({
      code: expect.stringMatching(/^(not_found|unavailable)$/),
    });
  });
}

function limit(): AbortSignal {
  return AbortSignal.timeout(LIMIT_MS);
}

function wish(more: { readonly metadata?: Readonly<Record<string, string>> } = {}) {
  return { templateID: "base", timeout: SECONDS, secure: true, ...more };
}

async function createSandbox(service: Service): Promise<AsyncDisposable & { readonly id: string }> {
  const { sandboxID: id } = await service.control.create(wish(), limit());
  return {
    id,
    async [Symbol.asyncDispose]() {
      await service.control.kill(id, limit());
    },
  };
}

async function run(service: Service, sandboxId: string, line: string) {
  const { process } = await service.attach(sandboxId, limit());
  const request = { cmd: "/bin/sh", args: ["-c", line], env: {}, hasStdin: false };
  return outcomeOf(process.start(request, { signal: limit() }));
}

async function outcomeOf(events: AsyncIterable<ProcessEvent>) {
  const outcome = { stdout: "", stderr: "", exitCode: -1 };
  for await (const event of events) {
    if (event.type === "data") {
      outcome[event.stream] += Buffer.from(event.bytes).toString("utf8");
    }
    if (event.type === "end") outcome.exitCode = event.exitCode;
  }
  return outcome;
}
