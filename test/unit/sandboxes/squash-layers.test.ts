/** Layers that become one leave the disk what other things were promised. */

import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { squashLayers } from "../../../src/sandboxes/builds/squash-layers.ts";
import { createCopyLedger } from "../../../src/sandboxes/disks/disk-space.ts";

const plan = { layers: [], kept: 0, directory: "/none", signal: AbortSignal.any([]) };

test("an engine that makes one layer of many is stopped when the disk has too little left", async () => {
  const copies = createCopyLedger();
  const squash: Engine["squash"] = async (_layers, _kept, { signal }) => {
    copies.notePromised(Number.MAX_SAFE_INTEGER);
    const { promise, reject } = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => reject(new Error("stopped")));
    return promise;
  };
  const context = { copies, engine: { squash }, layersDirectory: tmpdir() };
  await expect(squashLayers(context, plan)).rejects.toMatchObject({
    code: "resource_exhausted",
    message: expect.stringMatching(/^disk of \S+ has 0 MiB left: no space left$/),
  });
});

test.for(["tar: ./a: Wrote only 9216 of 10240 bytes", "cp: a: No space left on device"])(
  "a full disk is told as one: %s",
  async (said) => {
    const squash: Engine["squash"] = async () => {
      throw new Error(said);
    };
    const context = { copies: createCopyLedger(), engine: { squash }, layersDirectory: tmpdir() };
    await expect(squashLayers(context, plan)).rejects.toMatchObject({
      code: "resource_exhausted",
      hint: expect.stringMatching(/^delete snapshots/),
    });
  },
);
