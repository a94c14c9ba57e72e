/** Calls about volumes that meet each other. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { StepMessage, StepName } from "../../src/common/steps.ts";
import { createdVolumeSchema, type VolumeBody } from "../../src/wire/control.ts";
import { DISKS, VOLUME_LEVELS } from "../support/control/volume-levels.ts";
import { startTestService, type TestService } from "../support/service.ts";

interface HeldStep extends Disposable {
  /** Resolves when a change has come to the step, where it waits. */
  readonly hit: Promise<void>;
  release(): void;
}

/** Holds the first change that comes to this step. */
function holdAt(name: StepName): HeldStep {
  const hit = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  let isFirst = true;
  const listen = (message: unknown) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the channel carries nothing else
    const step = message as StepMessage;
    if (step.name !== name || !isFirst) return;
    isFirst = false;
    step.hold = held.promise;
    hit.resolve();
  };
  subscribe("sandbox-mcp:step", listen);
  return {
    hit: hit.promise,
    release: () => held.resolve(),
    [Symbol.dispose]() {
      held.resolve();
      unsubscribe("sandbox-mcp:step", listen);
    },
  };
}

const create = (service: TestService, name: string) =>
  service.call({ method: "POST", path: "/volumes", body: { name } });

const remove = (service: TestService, volumeId: string) =>
  service.call({ method: "DELETE", path: `/volumes/${volumeId}` });

describe.for(VOLUME_LEVELS)("volumes that are $name", ({ options }) => {
  test("one that is removed while it is made leaves nothing", async () => {
    await using service = await startTestService(options);
    using step = holdAt("volume.recorded");
    const created = create(service, "short");
    await step.hit;
    const [volume] = service.embedded.store.volumes.all();
    expect((await remove(service, volume?.volumeId ?? "")).status).toBe(204);
    step.release();
    await created;
    expect((await service.call({ path: "/volumes" })).body).toEqual([]);
    const folder = volume?.sizeMb === undefined ? "volumes" : "volume-disks";
    expect(await readdir(join(service.home, folder))).toEqual([]);
  });
});

describe.runIf(VOLUME_LEVELS.includes(DISKS))("disks of volumes", () => {
  test("a removal that takes its time holds up no other volume", async () => {
    await using service = await startTestService(DISKS.options);
    const { volumeID } = createdVolumeSchema.parse((await create(service, "large")).body);
    using step = holdAt("volume.detached");
    const removed = remove(service, volumeID);
    await step.hit;
    expect((await create(service, "other")).status).toBe(201);
    step.release();
    expect((await removed).status).toBe(204);
    expect(await readdir(join(service.home, "volume-disks"))).toHaveLength(1);
  });

  test("a volume is mounted before others that are still to be made", async () => {
    await using service = await startTestService(DISKS.options);
    const { volumeID, token } = createdVolumeSchema.parse((await create(service, "there")).body);
    using step = holdAt("volume.formatted");
    const ends: string[] = [];
    const names = ["first", "second", "third", "fourth"];
    const made = names.map(async (name) => {
      await create(service, name);
      ends.push(name);
    });
    await step.hit;
    await expect.poll(() => service.embedded.store.volumes.all()).toHaveLength(5);
    const listed = service.embedded.sandboxes.openVolume(volumeID, token).list("/", 1);
    step.release();
    expect(await listed).toEqual([]);
    expect(ends).not.toContain("fourth");
    await Promise.all(made);
    expect(ends.toSorted()).toEqual(names.toSorted());
  });

  test("a volume that another service removes before it is mounted is not found", async () => {
    await using stack = new AsyncDisposableStack();
    const home = await mkdtemp(join(tmpdir(), "smcp-vol-"));
    stack.defer(() => rm(home, { recursive: true, force: true }));
    const first = stack.use(await startTestService({ ...DISKS.options, home }));
    const second = stack.use(await startTestService({ ...DISKS.options, home }));
    const volume = createdVolumeSchema.parse((await create(first, "gone")).body);
    const other = createdVolumeSchema.parse((await create(first, "other")).body);
    const list = async ({ volumeID, token }: VolumeBody) =>
      first.embedded.sandboxes.openVolume(volumeID, token).list("/", 1);
    using step = holdAt("volume.mounted");
    const listed = list(other);
    await step.hit;
    // It waits for the other one.
    const asked = list(volume);
    const removed = remove(second, volume.volumeID);
    await expect.poll(() => first.embedded.store.volumes.all()).toHaveLength(1);
    step.release();
    await expect(asked).rejects.toMatchObject({ code: "not_found" });
    expect([await listed, (await removed).status]).toEqual([[], 204]);
  });
});
