import { channel } from "node:diagnostics_channel";
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { step, STEPS, type StepMessage } from "../../../src/common/steps.ts";
import { POD_STEPS } from "../../kubernetes/steps.ts";
import { BUILD_STEPS } from "../../support/faults/fault-build.ts";
import {
  CLONES,
  EXPORT_STEPS,
  FIRST_STEPS,
  IMAGE_STEPS,
  MEMORY_STEPS,
  MOVE_STEPS,
  OPERATIONS,
  POOLED,
  RECOVERY,
  RESTORE_STEPS,
  SEAL_STEPS,
  SQUASH,
  STORE_STEPS,
} from "../../support/faults/fault-cases.ts";
import { GROWTH_STEPS } from "../../support/faults/store-growth.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src");

async function saidInSource(): Promise<string[]> {
  const names = await readdir(SOURCE, { recursive: true });
  const texts = await Promise.all(
    names
      .filter((name) => name.endsWith(".ts"))
      .map(async (name) => readFile(join(SOURCE, name), "utf8")),
  );
  return texts.flatMap((text) =>
    [...text.matchAll(/\bstep\("([a-z.]+)"\)/g)].map((match) => match[1] ?? ""),
  );
}

test("every step of the list is said once, and a fault is tried at it", async () => {
  const listed = [...STEPS].toSorted();
  expect((await saidInSource()).toSorted()).toEqual(listed);
  const operations = [...OPERATIONS, ...CLONES, POOLED, SQUASH].flatMap(({ steps }) => steps);
  const pods = Object.values(POD_STEPS).flat();
  const tried = [
    ...operations,
    ...RECOVERY,
    ...FIRST_STEPS,
    ...MEMORY_STEPS,
    ...MOVE_STEPS,
    ...RESTORE_STEPS,
    ...SEAL_STEPS,
    ...BUILD_STEPS,
    ...STORE_STEPS,
    ...GROWTH_STEPS,
    ...EXPORT_STEPS,
    ...Object.values(IMAGE_STEPS).flat(),
    ...pods,
  ];
  expect([...new Set(tried)].toSorted()).toEqual(listed);
  expect(tried.length).toBeGreaterThan(40);
});

test("a change waits for what a listener gives it, and fails with it", async () => {
  const steps = channel("sandbox-mcp:step");
  const { promise, reject } = Promise.withResolvers<void>();
  const seen: string[] = [];
  const listen = (message: unknown) => {
    // The channel carries this type alone.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const said = message as StepMessage;
    seen.push(said.name);
    said.hold = promise;
  };
  steps.subscribe(listen);
  try {
    const held = step("pause.frozen");
    reject(new Error("planned"));
    await expect(held).rejects.toThrow("planned");
  } finally {
    steps.unsubscribe(listen);
  }
  await step("pause.frozen");
  expect(seen).toEqual(["pause.frozen"]);
});
