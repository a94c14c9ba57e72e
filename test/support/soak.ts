/** Many sandboxes made and ended, and many alive at once, with what a service holds before and after. */

import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { request } from "undici";
import { createGate } from "../../src/common/lifetime.ts";
import { takeCensus } from "./census.ts";
import type { TestServe } from "./serve.ts";

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
  /** What the service's resident memory grew by in the second half of the cycles. */
  readonly growthMib: number;
  /** How many the lists told of. */
  readonly listed: number;
  readonly listP99Ms: number;
}

const KIB_PER_MIB = 1024;
const SETTLE_TRIES = 50;
const SETTLE_MS = 200;
const LISTS = 200;
const PAGE = 100;

/** Plays both; the service has at most a pool and no sandbox at the start. */
export async function soak(serve: TestServe, options: SoakOptions): Promise<SoakFigures> {
  const call = createCaller(serve);
  const gate = createGate(options.atOnce);
  const cycle = async () => gate.run(async () => call.end(await call.create()));
  const cycles = async (count: number) => Promise.all(Array.from({ length: count }, cycle));
  const holdings = async () => takeHoldings(serve);
  await cycle();
  const before = await settle(holdings);
  await cycles(Math.ceil(options.cycles / 2));
  const halfMib = await residentMib(serve);
  await cycles(Math.floor(options.cycles / 2));
  const growthMib = (await residentMib(serve)) - halfMib;
  const after = await settle(holdings, before);
  const creates = Array.from({ length: options.alive }, async () =>
    gate.run(async () => call.create()),
  );
  const ids = await Promise.all(creates);
  const lists: number[] = [];
  for (let index = 0; index < LISTS; index += 1) {
    const startedAt = performance.now();
    await call.list();
    lists.push(performance.now() - startedAt);
  }
  const listed = await call.listAll();
  await Promise.all(ids.map(async (id) => gate.run(async () => call.end(id))));
  const end = await settle(holdings, before);
  const listP99Ms = lists.toSorted((left, right) => left - right)[Math.floor(LISTS * 0.99)] ?? 0;
  return { before, after, end, growthMib, listed, listP99Ms };
}

async function takeHoldings({ program, home }: TestServe): Promise<Holdings> {
  const { pid } = program.child;
  const census = await takeCensus({ home });
  return {
    descriptors: (await readdir(`/proc/${pid}/fd`)).length,
    mounts: (await readFile(`/proc/${pid}/mountinfo`, "utf8")).split("\n").length,
    cgroups: census.cgroups.length,
    loopDevices: census.loopDevices.length,
    idClaims: census.idClaims.length,
    processes: census.processes.length,
  };
}

async function residentMib({ program }: TestServe): Promise<number> {
  const status = await readFile(`/proc/${program.child.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / KIB_PER_MIB;
}

/** Once they are what is wanted, or the same twice; connections and a pool take their time. */
async function settle(holdings: () => Promise<Holdings>, wanted?: Holdings): Promise<Holdings> {
  let last = await holdings();
  for (let attempt = 0; attempt < SETTLE_TRIES; attempt += 1) {
    await delay(SETTLE_MS * (wanted === undefined ? 5 : 1));
    const next = await holdings();
    const isSettled = JSON.stringify(next) === JSON.stringify(wanted ?? last);
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
    async create(): Promise<string> {
      const { body } = await send("POST", "/v2/sandboxes", { templateID: "base", timeout: 3_600 });
      const hasId = typeof body === "object" && body !== null && "sandboxID" in body;
      return hasId ? String(body.sandboxID) : "";
    },
    async end(id: string): Promise<void> {
      await send("DELETE", `/sandboxes/${id}`);
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
