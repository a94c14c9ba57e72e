/** A change of egress rules that cannot be recorded, as on a full disk: those of before hold again. */

import { pino } from "pino";
import { expect, test } from "vitest";
import { createGate } from "../../src/common/concurrency.ts";
import { SandboxError } from "../../src/common/errors.ts";
import type { Egress, Engine } from "../../src/engine/engine.ts";
import { createLayerEngine } from "../support/engine/layer-engine.ts";
import { startTestService } from "../support/service.ts";

const denied = (network: string): Egress => ({ allow: [], deny: [network], domains: [] });

test("the rules that are told are those that hold", async () => {
  const layered = createLayerEngine();
  const told: Egress[] = [];
  const setEgress = async (egress: Egress) => void told.push(egress);
  const engine: Engine = {
    ...layered,
    create: async (spec, signal) =>
      Object.assign(await layered.create(spec, signal), { setEgress }),
  };
  const lines: unknown[] = [];
  const log = pino({ level: "warn" }, { write: (line) => void lines.push(JSON.parse(line)) });
  await using service = await startTestService({ engine, log });
  const network = { denyOut: ["10.0.0.0/8"] };
  const { sandboxID } = await service.create({ network });
  const path = `/sandboxes/${sandboxID}`;
  const { sandboxes } = service.embedded.store;
  const put = sandboxes.put.bind(sandboxes);
  const refuse: typeof put = (record) => {
    if (record.owesEgress === true) put(record);
    else throw new SandboxError("resource_exhausted", "database: no space left on the disk");
  };
  Object.assign(sandboxes, { put: refuse });
  const body = { denyOut: ["192.0.2.0/24"] };
  expect((await service.call({ method: "PUT", path: `${path}/network`, body })).status).toBe(429);
  Object.assign(sandboxes, { put });
  expect(told).toEqual([denied("192.0.2.0/24"), denied("10.0.0.0/8")]);
  expect((await service.call({ path })).body).toMatchObject({ network });
  // The rules hold: the line does not say that they were lost.
  const msg = "restored egress rules are set again at a start";
  expect(lines).toEqual([expect.objectContaining({ op: "sandbox.network", level: 40, msg })]);
  // It is set again by the next start, should this one have failed too.
  expect(sandboxes.get(sandboxID)).toMatchObject({ network, owesEgress: true });
});

test("rules that fail do not undo those of a change that came meanwhile", async () => {
  const layered = createLayerEngine();
  const applied: Egress[] = [];
  const held = Promise.withResolvers<void>();
  // In the order of the calls, as the engine does.
  const order = createGate(1);
  const setEgress = async (egress: Egress): Promise<void> =>
    order.run(async () => {
      const isFirst = egress !== "none" && egress.deny.includes("192.0.2.0/24");
      if (isFirst) await held.promise;
      applied.push(egress);
    });
  const engine: Engine = {
    ...layered,
    create: async (spec, signal) =>
      Object.assign(await layered.create(spec, signal), { setEgress }),
  };
  await using service = await startTestService({ engine });
  const { sandboxID } = await service.create({ network: { denyOut: ["10.0.0.0/8"] } });
  const path = `/sandboxes/${sandboxID}/network`;
  const change = async (network: string) => {
    const body = { denyOut: [network] };
    return (await service.call({ method: "PUT", path, body })).status;
  };
  const failing = change("192.0.2.0/24");
  const { sandboxes } = service.embedded.store;
  await expect.poll(() => sandboxes.get(sandboxID)?.owesEgress).toBe(true);
  const later = change("198.51.100.0/24");
  // The later one is at the engine, or waits; its call alone says which.
  await service.call({ path: `/sandboxes/${sandboxID}` });
  held.reject(new SandboxError("unavailable", "no rules now"));
  expect(await Promise.all([failing, later])).toEqual([503, 204]);
  await order.run(async () => undefined);
  expect(applied.at(-1)).toEqual(denied("198.51.100.0/24"));
  const network = { denyOut: ["198.51.100.0/24"] };
  expect(sandboxes.get(sandboxID)).toMatchObject({ network, owesEgress: false });
});
