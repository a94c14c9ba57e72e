/** The daemon's log over connections that break: every line once, or a mark that says how many are lost. */

import type { Socket } from "node:net";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { SandboxError } from "../../src/common/errors.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createBareEngine } from "../support/engine/bare-engine.ts";
import { PERL_DIRECTORY } from "../support/perl-directory.ts";
import { startTestService, type TestService } from "../support/service.ts";

const DAEMON = resolve(import.meta.dirname, "../../dist/envd.cjs");
const KEPT_BYTES = 1_048_576;

interface Wire {
  readonly engine: Engine;
  /** Cuts the connections to the daemon that are open. */
  cut(): void;
  /** Whether new ones come about. */
  isUp: boolean;
}

/** The host's own channel to the daemon, in a test's hands. */
function createWire(): Wire {
  const engine = createBareEngine({
    command: [process.execPath, DAEMON],
    perlDirectory: PERL_DIRECTORY,
  });
  const sockets = new Set<Socket>();
  const wire: Wire = {
    isUp: true,
    cut() {
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    engine: {
      ...engine,
      async create(spec, signal) {
        const container = await engine.create(spec, signal);
        const dial = container.dialControl.bind(container);
        return Object.assign(container, {
          async dialControl(until: AbortSignal) {
            if (!wire.isUp) throw new SandboxError("unavailable", "the wire is down");
            const socket = await dial(until);
            sockets.add(socket);
            return socket;
          },
        });
      },
    },
  };
  return wire;
}

interface Entry {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string>>;
}

async function logsOf(service: TestService, sandboxId: string): Promise<readonly Entry[]> {
  const reply = await service.call({ path: `/sandboxes/${sandboxId}/logs?limit=10000` });
  return JSON.parse(reply.text).logEntries;
}

/** One call of the daemon, which is one line of its log; the path is in it. */
async function stat(
  service: TestService,
  sandbox: { readonly sandboxID: string; readonly envdAccessToken?: string | null | undefined },
  path: string,
): Promise<void> {
  await service.enter(sandbox, {
    method: "POST",
    path: "/filesystem.Filesystem/Stat",
    headers: {
      "x-access-token": String(sandbox.envdAccessToken),
      "connect-protocol-version": "1",
    },
    body: { path },
  });
}

const CALLS = 200;

test("connections that break lose no line and tell none twice", async () => {
  const wire = createWire();
  await using service = await startTestService({ engine: wire.engine });
  const sandbox = await service.create();
  for (let call = 0; call < CALLS; call += 1) {
    if (call % 10 === 5) wire.cut();
    await stat(service, sandbox, `/call/${call}`);
  }
  const paths = async () =>
    (await logsOf(service, sandbox.sandboxID))
      .filter(({ message }) => message === "Filesystem stat")
      .map(({ fields }) => fields["path"]);
  const wanted = Array.from({ length: CALLS }, (_, call) => `/call/${call}`);
  await expect.poll(paths, { timeout: 20_000 }).toEqual(wanted);
  const marks = (await logsOf(service, sandbox.sandboxID)).filter(({ level }) => level === "warn");
  expect(marks).toEqual([]);
});

test("what is gone before the connection is back leaves a mark that counts it", async () => {
  const wire = createWire();
  await using service = await startTestService({ engine: wire.engine });
  const sandbox = await service.create();
  await stat(service, sandbox, "/first");
  const said = async () => (await logsOf(service, sandbox.sandboxID)).map(({ message }) => message);
  await expect.poll(said).toContain("Filesystem stat");
  wire.isUp = false;
  wire.cut();
  // More than the daemon keeps.
  const padding = "x".repeat(3_000);
  const calls = Math.ceil((1.3 * KEPT_BYTES) / padding.length);
  for (let call = 0; call < calls; call += 20) {
    const batch = Array.from({ length: 20 }, (_, index) =>
      stat(service, sandbox, `/${call + index}/${padding}`),
    );
    await Promise.all(batch);
  }
  wire.isUp = true;
  await stat(service, sandbox, "/last");
  const all = async () => logsOf(service, sandbox.sandboxID);
  await expect
    .poll(async () => (await all()).at(-1)?.fields["path"], { timeout: 20_000 })
    .toBe("/last");
  const entries = await all();
  const [mark, ...more] = entries.filter(({ level }) => level === "warn");
  expect([mark?.message, more]).toEqual(["log lines lost", []]);
  const total = Math.ceil(calls / 20) * 20 + 2;
  const kept = entries.filter(({ message }) => message === "Filesystem stat").length;
  expect(Number(mark?.fields["lost"])).toBe(total - kept);
  expect(entries.findIndex((entry) => entry === mark)).toBeLessThan(entries.length - 2);
});
