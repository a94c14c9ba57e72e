/** Tags that are assigned or gone when the database cannot be read for a moment: they are answered. */

import { expect, test } from "vitest";
import { diskFullError } from "../../src/common/errors.ts";
import type { Store } from "../../src/store/store.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService } from "../support/service.ts";

/** The first look for a template after the next change fails. */
function failAfterChange({ templates }: Store, run: Store["transaction"]) {
  const getByName = templates.getByName.bind(templates);
  let faults = 0;
  let isChanged = false;
  templates.getByName = (name) => {
    if (isChanged && faults === 0) {
      faults += 1;
      throw diskFullError("database");
    }
    return getByName(name);
  };
  return {
    countFaults: () => faults,
    transaction: <T>(work: () => T): T => {
      const result = run(work);
      isChanged = true;
      return result;
    },
  };
}

test.for([
  { method: "POST", body: { target: "kept:a", tags: ["c"] }, status: 201 },
  { method: "DELETE", body: { name: "kept", tags: ["b"] }, status: 204 },
] as const)(
  "$method of a tag is answered though old builds cannot be looked up yet",
  async ({ method, body, status }) => {
    await using service = await startTestService({ engine: createLayerEngine() });
    const { store } = service.embedded;
    const { sandboxID } = await service.create();
    for (const tag of ["a", "b"]) {
      const path = `/sandboxes/${sandboxID}/snapshots`;
      const taken = await service.call({ method: "POST", path, body: { name: `kept:${tag}` } });
      expect(taken.status).toBe(201);
    }
    const failing = failAfterChange(store, store.transaction.bind(store));
    Object.assign(store, { transaction: failing.transaction });
    const reply = await service.call({ method, path: "/templates/tags", body });
    expect(reply.status).toBe(status);
    await expect.poll(failing.countFaults).toBe(1);
  },
);
