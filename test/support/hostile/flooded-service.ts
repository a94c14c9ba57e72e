/** A service with one ordinary sandbox and others whose daemons flood it with log lines. */

import { resolve } from "node:path";
import type { Engine } from "../../../src/engine/engine.ts";
import { createBareEngine } from "../engine/bare-engine.ts";
import { PERL_DIRECTORY } from "../perl-directory.ts";
import { startTestService, type TestService } from "../service.ts";

const DAEMON = resolve(import.meta.dirname, "../../../dist/envd.cjs");
const FLOOD_DAEMON = resolve(import.meta.dirname, "flood-daemon.ts");

export interface FloodedService extends AsyncDisposable {
  readonly service: TestService;
  /** A call of the ordinary sandbox; rejects unless it is answered. */
  call(): Promise<void>;
  /** Sandboxes that flood until disposed, each with a seed after the given one. */
  flood(options: FloodOptions): Promise<Floods>;
}

export interface Floods extends AsyncDisposable {
  readonly ids: readonly string[];
}

export interface FloodOptions {
  readonly count: number;
  readonly seed: number;
  /** A name of `FLOOD_SHAPES`; without it any of them. */
  readonly shape?: string;
}

/** Starts the service with the ordinary sandbox. */
export async function startFloodedService(): Promise<FloodedService> {
  await using stack = new AsyncDisposableStack();
  let command: [string, ...string[]] = [process.execPath, DAEMON];
  const engine: Engine = {
    ...createBareEngine({ command, perlDirectory: PERL_DIRECTORY }),
    create: async (spec, signal) =>
      createBareEngine({ command, perlDirectory: PERL_DIRECTORY }).create(spec, signal),
  };
  const service = stack.use(await startTestService({ engine, maxSandboxes: 50 }));
  const neighbour = await service.create();
  const headers = {
    "x-access-token": String(neighbour.envdAccessToken),
    "connect-protocol-version": "1",
  };
  const owned = stack.move();
  return {
    service,
    async call() {
      const path = "/filesystem.Filesystem/Stat";
      const body = { path: "/etc/passwd" };
      const reply = await service.enter(neighbour, { method: "POST", path, headers, body });
      if (reply.status !== 200) throw new Error(`stat: ${reply.status} ${reply.text}`);
    },
    async flood({ count, seed, shape = "" }) {
      const ids: string[] = [];
      for (let index = 0; index < count; index += 1) {
        command = [process.execPath, FLOOD_DAEMON, String(seed + index), shape];
        ids.push((await service.create()).sandboxID);
      }
      return {
        ids,
        async [Symbol.asyncDispose]() {
          for (const id of ids) await service.call({ method: "DELETE", path: `/sandboxes/${id}` });
        },
      };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
