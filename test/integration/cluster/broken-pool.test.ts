/** Pooled Pods whose image cannot be pulled: those of other templates start all the same. */

import { userInfo } from "node:os";
import { expect, test } from "vitest";
import { startPodWorld } from "../../support/pod-front.ts";

const SETTLED = { timeout: 20_000, interval: 50 };

test("a template whose image is not there takes the place of no other in the pool", async () => {
  await using world = await startPodWorld();
  const { api, daemons } = world;
  daemons.isHolding = true;
  const imageOf = (path: string) => Object(api.objects.get(path)?.["spec"]).containers[0].image;
  const count = (image: string) =>
    [...api.objects.keys()].filter((path) => path.startsWith("pods/") && imageOf(path) === image)
      .length;
  api.onChange((type, plural, { metadata: { name } }) => {
    if (plural !== "pods" || type !== "ADDED" || imageOf(`pods/${name}`) !== "broken:1") return;
    const state = { waiting: { reason: "ImagePullBackOff", message: "not there" } };
    queueMicrotask(() =>
      api.change(`pods/${name}`, (pod) => {
        pod["status"] = { phase: "Pending", containerStatuses: [{ name: "sandbox", state }] };
      }),
    );
  });
  const { username: user } = userInfo();
  await world.start({
    images: [
      { name: "broken", image: "broken:1", user },
      { name: "base", image: "image:1", user },
    ],
    pool: [
      { template: "broken", size: 8 },
      { template: "base", size: 2 },
    ],
  });
  await expect.poll(() => count("image:1"), SETTLED).toBe(2);
  expect(count("broken:1")).toBe(4);
});

test("a Pod that does not start on its node keeps no other Pod of its template from the pool", async () => {
  await using world = await startPodWorld();
  const { api, daemons } = world;
  daemons.isHolding = true;
  const podsOf = () => [...api.objects.keys()].filter((path) => path.startsWith("pods/"));
  const state = { waiting: { reason: "ImagePullBackOff", message: "not there" } };
  const stuck = { phase: "Pending", containerStatuses: [{ name: "sandbox", state }] };
  api.onChange((type, plural, { metadata: { name } }) => {
    if (plural !== "pods" || type !== "ADDED") return;
    const status = podsOf().length === 1 ? stuck : { phase: "Running", podIP: "127.0.0.1" };
    queueMicrotask(() => api.change(`pods/${name}`, (pod) => void (pod["status"] = status)));
  });
  await world.start({ pool: [{ template: "base", size: 6 }] });
  await expect.poll(() => podsOf().length, SETTLED).toBe(6);
});
