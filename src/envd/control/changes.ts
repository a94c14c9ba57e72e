/**
 * POST /baseline and GET /changes on the host's side: what the image contained, and what is different
 * now. Programs of the sandbox reach neither.
 */

import { once } from "node:events";
import { CHANGES_TRAILER } from "../../wire/pod-listener.ts";
import type { Baseline } from "../changes/baseline.ts";
import { streamChanges, type ChangesReport } from "../changes/stream.ts";
import type { TreePlace } from "../changes/tree.ts";
import { sendStatus } from "../exchange.ts";
import type { ControlExchange, ControlHandler } from "./exchange.ts";

export interface ChangesSource {
  readonly place: TreePlace;
  readonly baseline: Baseline;
}

export function createBaselineHandler({ baseline }: ChangesSource): ControlHandler {
  return async ({ response }) => {
    await baseline.take();
    sendStatus(response, 204);
  };
}

/** One reader at a time; another one is answered with 409. */
export function createChangesHandler({ place, baseline }: ChangesSource): ControlHandler {
  let isBusy = false;
  return async ({ daemon, response }) => {
    if (isBusy) {
      sendStatus(response, 409);
      return;
    }
    isBusy = true;
    try {
      const report: ChangesReport = { skipped: 0, torn: 0 };
      await send(response, streamChanges(place, await baseline.read(), report), report);
      if (report.torn > 0 || report.skipped > 0) {
        const fields = { logger: "envd", ...report };
        daemon.log.write("warn", "a snapshot does not hold every file as it was", fields);
      }
    } finally {
      isBusy = false;
    }
  };
}

/** The report follows the archive, so a stream that was cut has none. */
async function send(
  response: ControlExchange["response"],
  chunks: AsyncIterable<Buffer>,
  report: ChangesReport,
): Promise<void> {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  response.writeHead(200, { "content-type": "application/x-tar", trailer: CHANGES_TRAILER });
  for await (const chunk of chunks) {
    if (closed.signal.aborted) return;
    if (chunk.length > 0 && !response.write(chunk)) {
      await once(response, "drain", { signal: closed.signal });
    }
  }
  response.addTrailers({ [CHANGES_TRAILER]: JSON.stringify(report) });
  response.end();
}
