/** Pods to which a webhook of the cluster has added a container, before that of the sandbox. */

import { expect, test } from "vitest";
import {
  addressOf,
  endOf,
  imageIdOf,
  imageOf,
  podSchema,
  startFaultOf,
  waitOf,
} from "../../../src/cluster/api/objects.ts";

const OTHER = { name: "proxy", imageID: "host/proxy@sha256:1", state: { running: {} } };

function makePod(state: object, phase = "Running") {
  const containers = [
    { name: "proxy", image: "proxy:1" },
    { name: "sandbox", image: "base:1" },
  ];
  const own = { name: "sandbox", imageID: "host/base@sha256:2", state };
  return podSchema.parse({
    metadata: { name: "ione", uid: "uid", resourceVersion: "1" },
    spec: { containers },
    status: { phase, podIP: "10.0.0.1", containerStatuses: [OTHER, own] },
  });
}

test("the image of a sandbox is that of its own container", () => {
  const pod = makePod({ running: {} });
  expect([imageOf(pod), imageIdOf(pod)]).toEqual(["base:1", "host/base@sha256:2"]);
  expect([endOf(pod), startFaultOf(pod), addressOf(pod)]).toEqual([
    undefined,
    undefined,
    "10.0.0.1",
  ]);
});

test("a sandbox whose container has ended is over and not there, whatever runs beside it", () => {
  const pod = makePod({ terminated: { reason: "OOMKilled" } });
  expect([endOf(pod), addressOf(pod)]).toEqual(["OOMKilled", undefined]);
});

test("a sandbox whose image cannot be pulled does not start", () => {
  const pod = makePod({ waiting: { reason: "ImagePullBackOff", message: "no base:1" } }, "Pending");
  expect(startFaultOf(pod)).toBe("ImagePullBackOff: no base:1");
});

test.for([
  { state: { waiting: { reason: "ContainerCreating" } }, wait: "ContainerCreating" },
  {
    state: { waiting: { reason: "ErrImagePull", message: "no route to host" } },
    wait: "ErrImagePull: no route to host",
  },
  { state: { running: {} }, wait: undefined },
])("a Pod that does not run in time waits for $wait", ({ state, wait }) => {
  expect(waitOf(makePod(state, "Pending"))).toBe(wait);
});

test("a Pod that has no node, or that is being removed, waits for that", () => {
  const pod = makePod({ waiting: { reason: "ContainerCreating" } }, "Pending");
  const condition = { type: "PodScheduled", status: "False", message: "0/2 nodes" };
  const unplaced = { ...pod, status: { ...pod.status, conditions: [condition] } };
  const metadata = { ...pod.metadata, deletionTimestamp: "2026-11-27T00:00:00Z" };
  expect([waitOf(unplaced), waitOf({ ...unplaced, metadata })]).toEqual([
    "0/2 nodes",
    "its last Pod is still being removed",
  ]);
});
