/** What every engine does, whatever isolates its containers: the contract of `src/engine/engine.ts`. */

import { access } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Container, ContainerSpec, Engine } from "../../src/engine/engine.ts";
import { initDaemon, runInside } from "../support/engine/run-inside.ts";

const LIMIT_MS = 30_000;
const HEALTH = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/** An engine in a home of its own; its end removes every container that a test left. */
export interface EngineHost extends AsyncDisposable {
  readonly engine: Engine;
  create(options?: { readonly signal?: AbortSignal }): Promise<Container>;
  directoryOf(id: string): string;
  /** What a container was made with. */
  specOf(id: string): ContainerSpec;
  /** Who runs commands inside. */
  readonly user: string;
  /** Has the first process of a container end by itself. */
  endInit(container: Container): Promise<void>;
}

/** Adds the suite for one engine to the block around it. */
export function describeEngine(start: () => Promise<EngineHost>): void {
  let host: EngineHost;

  beforeAll(async () => {
    host = await start();
    await host.engine.probe();
  });
  afterAll(async () => host[Symbol.asyncDispose]());

  describeLife(() => host);
  describeSockets(() => host);
}

function describeLife(host: () => EngineHost): void {
  test("the probe says that the machine can be used, and the containers are of its level", async () => {
    const { isUsable, level } = await host().engine.probe();
    await using container = await host().create();
    expect([isUsable, container.level, container.isHalted]).toEqual([true, level, false]);
  });

  test("a container that was disposed leaves no folder, however often it is disposed", async () => {
    const container = await host().create();
    await container[Symbol.asyncDispose]();
    await container[Symbol.asyncDispose]();
    expect(await container.exit).toEqual({ reason: "killed" });
    const folder = access(host().directoryOf(container.id));
    await expect(folder).rejects.toMatchObject({ code: "ENOENT" });
    const late = container.dialControl(AbortSignal.timeout(LIMIT_MS));
    await expect(late).rejects.toMatchObject({ code: "unavailable" });
  });

  test("an init that ends by itself ends the container", async () => {
    await using container = await host().create();
    await host().endInit(container);
    expect(await container.exit).toEqual({ reason: "init ended" });
  });

  test("a start that was canceled before leaves nothing", async () => {
    await using other = await createOpen(host());
    const canceled = host().create({ signal: AbortSignal.abort() });
    await expect(canceled).rejects.toMatchObject({ code: "canceled" });
    expect(await health(other)).toMatch(/^HTTP\/1\.1 204 /);
  });

  test("a halted container keeps its files and boots anew on them", async () => {
    await using container = await host().create();
    const { id } = container;
    await container.halt();
    await container.halt();
    expect(container.isHalted).toBe(true);
    await access(host().directoryOf(id));
    const halted = container.dialControl(AbortSignal.timeout(LIMIT_MS));
    await expect(halted).rejects.toMatchObject({ code: "unavailable" });
    await container.boot(host().specOf(id), AbortSignal.timeout(LIMIT_MS));
    await initDaemon(container);
    expect([container.isHalted, await health(container)]).toEqual([
      false,
      expect.stringMatching(/^HTTP\/1\.1 204 /),
    ]);
  });

  test("what nobody made is not adopted, and its removal is no fault", async () => {
    const directory = host().directoryOf("absent");
    expect(await host().engine.adopt("absent", directory)).toBeUndefined();
    await host().engine.remove("absent", directory);
    await host().engine.remove("absent", directory);
  });
}

function describeSockets(host: () => EngineHost): void {
  test("a paused container answers nothing until it is resumed", async () => {
    await using container = await createOpen(host());
    expect(await health(container)).toMatch(/^HTTP\/1\.1 204 /);
    await container.pause();
    await container.pause();
    const socket = await container.dialPublic(AbortSignal.timeout(LIMIT_MS));
    socket.write(HEALTH);
    const reply = text(socket);
    const silence = new Promise((resolve) => setTimeout(resolve, 200, "silent"));
    expect(await Promise.race([reply, silence])).toBe("silent");
    await container.resume();
    expect(await reply).toMatch(/^HTTP\/1\.1 204 /);
  });

  test("the daemon is reached by both sockets", async () => {
    await using container = await createOpen(host());
    const result = await runInside(container, "echo out; echo err >&2; exit 3", host().user);
    expect(result).toEqual({ exitCode: 3, stdout: "out\n", stderr: "err\n" });
  });

  test("a port on which nothing listens is unavailable", async () => {
    await using container = await createOpen(host());
    const dialled = container.dial(1, AbortSignal.timeout(LIMIT_MS));
    await expect(dialled).rejects.toMatchObject({ code: "unavailable" });
  });

  test.for([0, -1, 65_536, 1.5])("%d is no port", async (port) => {
    await using container = await host().create();
    const dialled = container.dial(port, AbortSignal.timeout(LIMIT_MS));
    await expect(dialled).rejects.toMatchObject({ code: "invalid_argument" });
  });

  test("what a container uses is told", async () => {
    await using container = await host().create();
    const usage = await container.readUsage();
    expect(Object.values(usage).every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
    expect(usage.diskTotalBytes).toBeGreaterThan(usage.diskBytes);
  });
}

/** A new container whose daemon answers. */
async function createOpen(host: EngineHost): Promise<Container> {
  const container = await host.create();
  await initDaemon(container);
  return container;
}

async function health(container: Container): Promise<string> {
  const socket = await container.dialPublic(AbortSignal.timeout(LIMIT_MS));
  socket.write(HEALTH);
  return text(socket);
}
