/** Logs and metrics of many sandboxes whose daemons do not answer: other teams have theirs. */

import assert from "node:assert";
import { expect, test } from "vitest";
import { createObjectCache } from "../../../src/cluster/api/object-cache.ts";
import { podSchema, type Pod } from "../../../src/cluster/api/objects.ts";
import { createPodInspector } from "../../../src/cluster/pods/inspect-pod.ts";
import { isKnown, storedSchema, type KnownSandbox } from "../../../src/cluster/records.ts";
import { createSystemClock } from "../../../src/common/clock.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { RECORD_FACTS } from "../../support/cluster/pod-record.ts";

const COUNT = 40;

function makeRecord(sandboxId: string, team: string): KnownSandbox {
  const record = {
    sandboxId,
    team,
    templateId: "template",
    buildId: "build",
    alias: "base",
    owner: "front",
    state: "running",
    ...RECORD_FACTS,
  };
  const metadata = { name: sandboxId, uid: "uid", resourceVersion: "1" };
  const stored = storedSchema.parse({ metadata, data: { record: JSON.stringify(record) } });
  assert(isKnown(stored));
  return stored;
}

/** Daemons of the team `silent` never answer, those of others refuse at once. */
function open() {
  const pods = createObjectCache<Pod>();
  const closing = new AbortController();
  const { promise: silence, reject } = Promise.withResolvers<never>();
  const end = () => reject(new SandboxError("unavailable", "the end of the test"));
  const inspector = createPodInspector({
    clock: createSystemClock(),
    pods: { ...pods, filled: Promise.resolve(), [Symbol.asyncDispose]: async () => undefined },
    closing: closing.signal,
    runs: {
      find: () => undefined,
      all: () => [],
      dialer({ record: { team } }) {
        const dial = async () => {
          if (team === "silent") return silence;
          throw new SandboxError("unavailable", "planned refusal");
        };
        return { dial, dialPublic: dial, dialControl: dial };
      },
      [Symbol.dispose]: () => undefined,
    },
  });
  const make = (sandboxId: string, team: string) => {
    const metadata = { name: sandboxId, uid: sandboxId, resourceVersion: "1" };
    const status = { phase: "Running", podIP: "127.0.0.1" };
    pods.apply(podSchema.parse({ metadata, status }));
    return makeRecord(sandboxId, team);
  };
  return { inspector, make, end };
}

type World = ReturnType<typeof open>;

const QUESTIONS: readonly [string, (world: World, stored: KnownSandbox) => Promise<unknown>][] = [
  [
    "a log",
    async ({ inspector }, stored) =>
      inspector.logs(stored, { sandboxId: stored.record.sandboxId, limit: 1 }),
  ],
  ["metrics", async ({ inspector }, stored) => inspector.measure(stored)],
];

test.for(QUESTIONS)("%s of one team: no wait for the daemons of another", async ([, ask]) => {
  const world = open();
  const waiting = Array.from({ length: COUNT }, async (_, at) =>
    ask(world, world.make(`silent${at}`, "silent")),
  );
  const settled = Promise.allSettled(waiting);
  const own = ask(world, world.make("own", "own"));
  await expect(own).rejects.toMatchObject({ message: "planned refusal" });
  world.end();
  await settled;
});
