/**
 * A daemon that is not ours any more: whatever it answers the service, on each way by which the
 * service asks, costs its own sandbox alone. FUZZ_SEED repeats a run.
 */

import { resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Sandbox } from "../../src/client/envd.ts";
import { createService, type Service } from "../../src/client/service.ts";
import { SandboxError } from "../../src/common/errors.ts";
import { createBareEngine } from "../support/engine/bare-engine.ts";
import { hostileReply, type HostileReply } from "../support/hostile/hostile-replies.ts";
import { startReplyServer, type ReplyServer } from "../support/hostile/reply-server.ts";
import { PERL_DIRECTORY } from "../support/perl-directory.ts";
import { createRandom } from "../support/random.ts";
import { tellCells } from "../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../support/runtimes.ts";
import { startTestService, type TestService } from "../support/service.ts";

const RELAY = resolve(import.meta.dirname, "../support/hostile/relay-daemon.ts");
const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const TIMES = IS_WHOLE_RUN ? 10 : 1;
const STARTS = 12 * TIMES;
const FOLLOWS = IS_WHOLE_RUN ? 400 : 40;
/** Each is followed with pauses that grow. */
const FOLLOWED = IS_WHOLE_RUN ? 32 : 8;
const TUNNELS = 80 * TIMES;
const CALLS = 240 * TIMES;
const LANES = 8;
/** A call to a daemon that says nothing more is given up. */
const CALL_MS = 300;

let publicSide: ReplyServer;
let controlSide: ReplyServer;
let service: TestService;
let client: Service;
const uncaught: string[] = [];
const note = (error: Error) => void uncaught.push(String(error.stack));
beforeAll(async () => {
  publicSide = await startReplyServer();
  controlSide = await startReplyServer();
  const words = [RELAY, String(publicSide.port), String(controlSide.port)];
  service = await startTestService({
    engine: createBareEngine({
      command: [process.execPath, ...words],
      perlDirectory: PERL_DIRECTORY,
    }),
    maxSandboxes: 100,
  });
  client = createService(service.embedded);
  process.on("uncaughtExceptionMonitor", note);
});
afterAll(async () => {
  process.off("uncaughtExceptionMonitor", note);
  await client[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  await publicSide[Symbol.asyncDispose]();
  await controlSide[Symbol.asyncDispose]();
});

const random = createRandom(SEED);
const next = () => hostileReply(random);

function reply(text: string, ending: HostileReply["ending"]): HostileReply {
  return { pieces: [Buffer.from(text)], isEarly: false, ending };
}

const DONE = reply("HTTP/1.1 204 No Content\r\n\r\n", "end");
const LOGS = reply("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "open");

/** Answers honestly what it is asked, but for the paths that begin so. */
function answer(prefix: string, hostile: () => HostileReply): void {
  const choose = (asked: string): HostileReply | undefined => {
    if (asked === "") return undefined;
    const [, path = ""] = asked.split(" ", 2);
    if (path.startsWith(prefix)) return hostile();
    return path.startsWith("/logs") ? LOGS : DONE;
  };
  publicSide.answer(choose);
  controlSide.answer(choose);
}

const honest = () => answer("nowhere", () => DONE);

async function inLanes(count: number, work: () => Promise<void>): Promise<void> {
  let left = count;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/** The service lives, and a sandbox with an honest daemon starts. */
async function expectAlive(): Promise<void> {
  expect(uncaught, `FUZZ_SEED=${SEED}`).toEqual([]);
  honest();
  const { sandboxID } = await service.create();
  const { status } = await service.call({ method: "DELETE", path: `/sandboxes/${sandboxID}` });
  expect(status).toBe(204);
}

test.for(["/init", "/health"])(
  "E41 a start whose daemon answers %s wrong fails alone",
  async (path, context) => {
    const statuses = new Set<number>();
    // What never ends is waited for as long as a start may take: here each ends by itself.
    answer(path, () => ({ ...next(), ending: "end" }));
    await inLanes(STARTS, async () => {
      const made = await service.call({
        method: "POST",
        path: "/v2/sandboxes",
        body: { templateID: "base" },
      });
      statuses.add(made.status);
      const id = /"sandboxID":"([a-z0-9]+)"/.exec(made.text)?.[1];
      if (id !== undefined) await service.call({ method: "DELETE", path: `/sandboxes/${id}` });
    });
    tellCells(context, STARTS);
    await expectAlive();
    expect([...statuses].filter((status) => ![201, 500, 503].includes(status))).toEqual([]);
  },
);

test("E41 a log that is no log is read again and again, and costs nobody else anything", async (context) => {
  honest();
  const { sandboxID } = await service.create();
  let follows = 0;
  answer("/logs", () => {
    follows += 1;
    return { ...next(), ending: "end" };
  });
  // The log of an honest daemon stays open: what is followed now begins with a new sandbox.
  const others = await Promise.all(Array.from({ length: FOLLOWED }, () => service.create()));
  await expect.poll(() => follows, { timeout: 60_000 }).toBeGreaterThan(FOLLOWS);
  for (const other of [sandboxID, ...others.map((one) => one.sandboxID)]) {
    await service.call({ method: "DELETE", path: `/sandboxes/${other}` });
  }
  tellCells(context, follows);
  await expectAlive();
});

test("E41 a tunnel that is none is a 502 for its own request", async (context) => {
  honest();
  const { sandboxID } = await service.create();
  answer("/tunnel", () => ({ ...next(), ending: "end" }));
  const statuses: number[] = [];
  await inLanes(TUNNELS, async () => {
    const { status } = await service.enter({ sandboxID, port: 8080 }, { path: "/" });
    statuses.push(status);
  });
  await service.call({ method: "DELETE", path: `/sandboxes/${sandboxID}` });
  tellCells(context, TUNNELS);
  await expectAlive();
  expect(statuses.filter((status) => status > 502 || status === 500 || status < 200)).toEqual([]);
});

test("E41 no answer to a call of our own client costs more than that call", async (context) => {
  honest();
  const { sandboxID } = await service.create();
  const sandbox = await client.attach(sandboxID, AbortSignal.timeout(5_000));
  answer("/", next);
  const strange: unknown[] = [];
  await inLanes(CALLS, async () => {
    try {
      await random.pick(CLIENT_CALLS)(sandbox, AbortSignal.timeout(CALL_MS));
    } catch (error) {
      if (!(error instanceof SandboxError)) strange.push(error);
    }
  });
  honest();
  await service.call({ method: "DELETE", path: `/sandboxes/${sandboxID}` });
  tellCells(context, CALLS);
  await expectAlive();
  expect(strange).toEqual([]);
});

const COMMAND = { cmd: "true", args: [], env: {}, hasStdin: false };
const CLIENT_CALLS: readonly ((sandbox: Sandbox, signal: AbortSignal) => Promise<unknown>)[] = [
  async (sandbox, signal) => sandbox.files.write("/a", Buffer.from("x"), { signal }),
  async (sandbox, signal) => sandbox.files.read("/a", { offset: 0, limit: 1_000 }, { signal }),
  async (sandbox, signal) => sandbox.filesystem.stat("/a", { signal }),
  async (sandbox, signal) => sandbox.files.compose(["/a", "/b"], "/c", { signal }),
  async (sandbox, signal) => sandbox.filesystem.listDir("/", 2, { signal }),
  async (sandbox, signal) => sandbox.filesystem.makeDir("/a", { signal }),
  async (sandbox, signal) => sandbox.filesystem.move("/a", "/b", { signal }),
  async (sandbox, signal) => sandbox.filesystem.remove("/a", { signal }),
  async (sandbox, signal) => sandbox.filesystem.createWatcher("/a", true, { signal }),
  async (sandbox, signal) => sandbox.filesystem.takeWatcherEvents("w", signal),
  async (sandbox, signal) => sandbox.process.start(COMMAND, { signal }).next(),
  async (sandbox, signal) => sandbox.process.connect(1, signal).next(),
  async (sandbox, signal) => sandbox.process.list(signal),
  async (sandbox, signal) => sandbox.process.sendInput(1, [Buffer.from("x")], signal),
  async (sandbox, signal) => sandbox.process.resize(1, { cols: 1, rows: 1 }, signal),
  async (sandbox, signal) => sandbox.process.sendSignal(1, "SIGTERM", signal),
];
