/** Pods to which a webhook of the cluster has added a container, before that of the sandbox. */

import { expect, test } from "vitest";
import {
  addressOf,
  endOf,
  imageIdOf,
  imageOf,
  podSchema,
  startFaultOf,
} from "../../../src/cluster/objects.ts";

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
