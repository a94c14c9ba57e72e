/**
 * Many sandboxes made and ended, many calls, and many sandboxes alive at once, with what a service
 * holds before and after.
 */

import { readdir } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Agent, request } from "undici";
import { createGate } from "../../../src/common/concurrency.ts";
import { sandboxSchema } from "../../../src/wire/control.ts";
import { takeCensus } from "../census.ts";
import type { TestServe } from "../serve.ts";
import type { MeasuredServe } from "./measured-serve.ts";
import type { MemoryReport } from "./memory-listener.ts";

/** What may not grow with the number of sandboxes that were there. */
export interface Holdings {
  readonly descriptors: number;
  readonly mounts: number;
  readonly cgroups: number;
  readonly loopDevices: number;
  readonly idClaims: number;
  readonly processes: number;
}

export interface SoakOptions {
  /** Sandboxes that are made and ended, one after the other in each of `atOnce` rows. */
  readonly cycles: number;
  /** Calls to one sandbox, by `CALLERS` at once. */
  readonly calls: number;
  /** Sandboxes alive at once, after that. */
  readonly alive: number;
  readonly atOnce: number;
}

export interface SoakFigures {
  readonly before: Holdings;
  /** After the cycles. */
  readonly after: Holdings;
  /** After the end of those that were alive at once. */
  readonly end: Holdings;
  /** After a tenth of the cycles and calls, after all of them, and at the end. */
  readonly memory: readonly MemoryReport[];
  /** What a forced collection left at the end, less what it left after a tenth. */
  readonly growthBytes: number;
  readonly callP50Ms: number;
  readonly callMaxMs: number;
  /** How many the lists told of. */
  readonly listed: number;
  readonly listP99Ms: number;
}

const CALLERS = 6;
/** The share of all that makes caches as full as they get. */
const WARM_UP = 0.1;
const SETTLE_TRIES = 50;
const SETTLE_MS = 200;
const LISTS = 200;
const PAGE = 100;

/** Plays all of it; the service has at most a pool and no sandbox at the start. A failed call throws. */
export async function soak(serve: MeasuredServe, options: SoakOptions): Promise<SoakFigures> {
  const call = createCaller(serve);
  const gate = createGate(options.atOnce);
  const cycle = async () => gate.run(async () => call.end((await call.create()).id));
  const cycles = async (count: number) => Promise.all(Array.from({ length: count }, cycle));
  const holdings = async () => takeHoldings(serve);
  const play = async (share: number): Promise<number[]> => {
    await cycles(Math.ceil(share * options.cycles));
    return call.many(Math.ceil(share * options.calls));
  };
  await cycle();
  const before = await settle(holdings);
  await play(WARM_UP);
  await settle(holdings, before);
  const memory = [await serve.measure()];
  const callsMs = (await play(1 - WARM_UP)).toSorted((left, right) => left - right);
  const after = await settle(holdings, before);
  memory.push(await serve.measure());
  const creates = Array.from({ length: options.alive }, async () =>
    gate.run(async () => call.create()),
  );
  const made = await Promise.all(creates);
  const lists: number[] = [];
  for (let index = 0; index < LISTS; index += 1) {
    const startedAt = performance.now();
    await call.list();
    lists.push(performance.now() - startedAt);
  }
  const listed = await call.listAll();
  await Promise.all(made.map(async ({ id }) => gate.run(async () => call.end(id))));
  const end = await settle(holdings, before);
  memory.push(await serve.measure());
  const [warm = 0, late = 0] = memory.map(({ heapUsed, external }) => heapUsed + external);
  return {
    before,
    after,
    end,
    memory,
    growthBytes: late - warm,
    callP50Ms: callsMs[Math.floor(callsMs.length / 2)] ?? 0,
    callMaxMs: callsMs.at(-1) ?? 0,
    listed,
    listP99Ms: lists.toSorted((left, right) => left - right)[Math.floor(LISTS * 0.99)] ?? 0,
  };
}

async function takeHoldings({ program, home }: TestServe): Promise<Holdings> {
  const { pid } = program.child;
  const census = await takeCensus(home);
  return {
    descriptors: (await readdir(`/proc/${pid}/fd`)).length,
    mounts: census.mounts.length,
    cgroups: census.cgroups.length,
    loopDevices: census.loopDevices.length,
    idClaims: census.idClaims.length,
    processes: census.processes.length,
  };
}

/**
 * What there is more of than before. There may be less: a connection that is just ending when it is
 * first counted is none later.
 */
export function listGrown(before: Holdings, later: Holdings): readonly string[] {
  const counts = new Map(Object.entries(before));
  const grown = Object.entries(later).filter(([name, count]) => count > (counts.get(name) ?? 0));
  return grown.map(([name, count]) => `${name}: ${counts.get(name)}, then ${count}`);
}

/** Once no more is there than before, or the same twice; connections and a pool take their time. */
async function settle(holdings: () => Promise<Holdings>, before?: Holdings): Promise<Holdings> {
  let last = await holdings();
  for (let attempt = 0; attempt < SETTLE_TRIES; attempt += 1) {
    await delay(SETTLE_MS * (before === undefined ? 5 : 1));
    const next = await holdings();
    const isSettled =
      before === undefined ? isDeepStrictEqual(next, last) : listGrown(before, next).length === 0;
    last = next;
    if (isSettled) break;
  }
  return last;
}

function createCaller({ url, apiKey }: TestServe) {
  const headers = { "x-api-key": apiKey, "content-type": "application/json" };
  // A connection that is kept is a descriptor of the service too: each call has its own.
  const send = async (method: "GET" | "POST" | "DELETE", path: string, body?: object) => {
    const payload = body === undefined ? null : JSON.stringify(body);
    const reply = await request(`${url}${path}`, { method, headers, body: payload, reset: true });
    const text = await reply.body.text();
    if (reply.statusCode >= 300) throw new Error(`${method} ${path}: ${reply.statusCode} ${text}`);
    const parsed: unknown = text === "" ? undefined : JSON.parse(text);
    return { body: parsed, nextToken: reply.headers["x-next-token"] };
  };
  return {
    async create(): Promise<SandboxAddress> {
      const { body } = await send("POST", "/v2/sandboxes", { templateID: "base", timeout: 3_600 });
      const { sandboxID: id, envdAccessToken: token } = sandboxSchema.parse(body);
      return { id, token: token ?? "" };
    },
    async end(id: string): Promise<void> {
      await send("DELETE", `/sandboxes/${id}`);
    },
    /** Calls of a sandbox of their own, by some callers at once; what each took. */
    async many(count: number): Promise<number[]> {
      const target = await this.create();
      const agent = new Agent({ connections: CALLERS });
      const tookMs: number[] = [];
      let left = count;
      const caller = async () => {
        while (left > 0) {
          left -= 1;
          const startedAt = performance.now();
          await stat(url, agent, target);
          tookMs.push(performance.now() - startedAt);
        }
      };
      await Promise.all(Array.from({ length: CALLERS }, caller));
      // Its connections are descriptors of the service.
      await agent.close();
      await this.end(target.id);
      return tookMs;
    },
    async list(): Promise<void> {
      await send("GET", `/v2/sandboxes?limit=${PAGE}`);
    },
    /** How many all pages tell of. */
    async listAll(): Promise<number> {
      let count = 0;
      for (let token: string | undefined = ""; token !== undefined;) {
        const next: string = token === "" ? "" : `&nextToken=${encodeURIComponent(token)}`;
        const page = await send("GET", `/v2/sandboxes?limit=${PAGE}${next}`);
        count += Array.isArray(page.body) ? page.body.length : 0;
        token = typeof page.nextToken === "string" ? page.nextToken : undefined;
      }
      return count;
    },
  };
}

interface SandboxAddress {
  readonly id: string;
  readonly token: string;
}

async function stat(url: string, dispatcher: Agent, { id, token }: SandboxAddress): Promise<void> {
  const reply = await request(`${url}/filesystem.Filesystem/Stat`, {
    dispatcher,
    method: "POST",
    headers: {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      "e2b-sandbox-id": id,
      "e2b-sandbox-port": "49983",
      "x-access-token": token,
    },
    body: '{"path":"/etc/passwd"}',
  });
  const text = await reply.body.text();
  if (reply.statusCode !== 200) throw new Error(`stat: ${reply.statusCode} ${text}`);
}
