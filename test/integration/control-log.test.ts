/** What the program's log tells of calls of the control API that fail. */

import { pino } from "pino";
import { expect, test } from "vitest";
import { createHeldEngine } from "../support/engine/held-engine.ts";
import { startTestService } from "../support/service.ts";

test("a fault of the service is a warning, what a client asks of it in vain is none", async () => {
  const lines: { readonly op?: string; readonly level: number; readonly status?: number }[] = [];
  const log = pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line)) });
  const held = createHeldEngine();
  await using service = await startTestService({ engine: held.engine, log });
  await service.call({ path: "/secrets" });
  await service.call({ path: "/sandboxes/No!" });
  held.failStarts(1);
  await service.call({ method: "POST", path: "/sandboxes", body: { templateID: "base" } });
  const calls = lines.filter(({ op = "" }) => /^(?:GET|POST) /.test(op));
  const { debug, warn } = pino.levels.values;
  expect(calls.map(({ op, status, level }) => ({ op, status, level }))).toEqual([
    { op: "GET /secrets", status: 501, level: debug },
    { op: "GET /sandboxes/{sandboxID}", status: 400, level: debug },
    { op: "POST /sandboxes", status: 503, level: warn },
  ]);
});
