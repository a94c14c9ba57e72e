/**
 * Each request that an operation makes to the API server is spoiled once: never carried out, carried out
 * late or twice, answered by half or by somebody else. The caller is told so, the other front can go on,
 * and nothing is left.
 */

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  API_FAULTS,
  startApiFaults,
  type ApiFault,
  type ApiFaults,
} from "../../../support/cluster/api-faults.ts";
import { sendFront } from "../../../support/cluster/pod-front.ts";
import { startSnapshotWorld, type SnapshotWorld } from "../../../support/cluster/snapshot-world.ts";

/** Three minutes become four seconds, half an hour becomes half a minute. */
const GRACE_SHARE = 0.02;
const SETTLED = { timeout: 60_000, interval: 50 };
const LONG = 180_000;
/** More than any operation makes. */
const MAX_REQUESTS = 30;

let place: SnapshotWorld;
let faults: ApiFaults;

beforeAll(async () => {
  place = await startSnapshotWorld({
    graceShare: GRACE_SHARE,
    through: async (url) => {
      faults = await startApiFaults(url);
      return faults;
    },
  });
}, LONG);
afterAll(async () => place[Symbol.asyncDispose]());

interface Reply {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

interface Operation {
  readonly name: string;
  /** Returns the sandbox that it is about; an empty name for none. */
  prepare(): Promise<string>;
  run(id: string): Promise<Reply>;
  /** What the other front finds and does then. */
  finish(id: string, reply: Reply): Promise<void>;
}

const objects = () => place.world.api.objects;
const dataOf = (id: string) => Object(objects().get(`configmaps/${id}`)?.["data"]);
/** What fronts leave while they run is not that of sandboxes. */
const left = () => [...objects().keys()].filter((path) => /^(?:pods|configmaps)\//.test(path));
const send = async (front: "url" | "second", call: `${string} ${string}`, body?: unknown) =>
  sendFront(place[front], call, body);

async function mustSend(call: `${string} ${string}`, statuses: readonly number[], body?: unknown) {
  const reply = await send("second", call, body);
  expect(statuses, `${call}: ${reply.status} ${reply.body.message}`).toContain(reply.status);
  return reply;
}

async function create(): Promise<string> {
  const { body } = await mustSend("POST /sandboxes", [201], { templateID: "base", timeout: 300 });
  return body.sandboxID;
}

async function createPaused(): Promise<string> {
  const id = await create();
  await mustSend(`POST /sandboxes/${id}/pause`, [204]);
  return id;
}

const kill = async (id: string) => mustSend(`DELETE /sandboxes/${id}`, [204, 404]);

const OPERATIONS: readonly Operation[] = [
  {
    name: "create",
    prepare: async () => "",
    run: async () => send("url", "POST /sandboxes", { templateID: "base", timeout: 300 }),
    async finish(_, { status, body }) {
      if (status === 201) await kill(String(body["sandboxID"]));
      await kill(await create());
    },
  },
  {
    name: "kill",
    prepare: create,
    run: async (id) => send("url", `DELETE /sandboxes/${id}`),
    finish: async (id) => void (await kill(id)),
  },
  {
    name: "timeout",
    prepare: create,
    run: async (id) => send("url", `POST /sandboxes/${id}/timeout`, { timeout: 600 }),
    async finish(id) {
      await mustSend(`POST /sandboxes/${id}/timeout`, [204], { timeout: 700 });
      await kill(id);
    },
  },
  {
    name: "pause",
    prepare: create,
    run: async (id) => send("url", `POST /sandboxes/${id}/pause`),
    async finish(id, { status }) {
      await expect.poll(() => dataOf(id).change, SETTLED).toBeUndefined();
      const { body } = await mustSend(`GET /sandboxes/${id}`, [200]);
      // Clients take 409 for a pause that was done before.
      const claimed = status === 204 || status === 409 ? ["paused"] : ["running", "paused"];
      expect(claimed).toContain(body.state);
      await mustSend(`POST /sandboxes/${id}/connect`, [200, 201], { timeout: 300 });
      expect(place.world.daemons.areStopped(id)).toBe(false);
      await kill(id);
    },
  },
  {
    name: "resume",
    prepare: createPaused,
    run: async (id) => send("url", `POST /sandboxes/${id}/connect`, { timeout: 300 }),
    async finish(id) {
      const connect = async () =>
        (await send("second", `POST /sandboxes/${id}/connect`, { timeout: 300 })).status;
      await expect.poll(connect, SETTLED).toBeOneOf([200, 201]);
      const { body } = await mustSend(`GET /sandboxes/${id}`, [200]);
      expect([body.state, objects().has(`pods/${id}`)]).toEqual(["running", true]);
      await kill(id);
    },
  },
];

/** Whether there was such a request. */
async function spoil(operation: Operation, number: number, fault: ApiFault): Promise<boolean> {
  const id = await operation.prepare();
  let count = 0;
  faults.choose(() => (count++ === number ? fault : undefined));
  const beganMs = performance.now();
  const reply = await operation.run(id);
  const tookMs = performance.now() - beganMs;
  faults.choose(() => undefined);
  await faults.settled();
  const told = `${operation.name}, request ${number}: ${reply.status} ${String(reply.body["message"])}`;
  // Without an answer a front would wait for longer than that.
  expect({ told, isSoon: tookMs < 14_000 }).toEqual({
    told: expect.stringMatching(/: (?:2\d\d|4\d\d \w.*|503 \w.*)/),
    isSoon: true,
  });
  await operation.finish(id, reply);
  return count > number;
}

test.for(API_FAULTS)("no request that is %s leaves anything", { timeout: LONG }, async (fault) => {
  for (const operation of OPERATIONS) {
    let number = 0;
    while (number < MAX_REQUESTS && (await spoil(operation, number, fault))) number += 1;
    expect({ [operation.name]: number > 0 }).toEqual({ [operation.name]: true });
  }
  await expect.poll(left, SETTLED).toEqual([]);
});
