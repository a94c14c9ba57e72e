/** Streams that nobody reads harm nobody. */

import { once } from "node:events";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { startTestDaemon } from "../../support/daemon/envd.ts";
import { joinWithoutReading, measureSlowReaders } from "../../support/hostile/slow-readers.ts";
import { readEnvelopes } from "../../support/raw-call.ts";

const MIB = 1024 * 1024;
const MAX_ADDED_MS = 50;
/** Of a machine with other work, on which the same call takes long without them, too. */
const MAX_ADDED_SHARE = 2;
/** Such a machine delays everybody now and then, but not round after round. */
const MAX_ROUNDS = 4;
/** The first round also grows what the daemon keeps for its own use from then on. */
const MAX_FIRST_GROWTH_BYTES = 64 * MIB;
const MAX_GROWTH_BYTES = 24 * MIB;

test.for([1, 100])("R9 %i slow readers delay no other, and hold no memory", async (count) => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const first = await measureSlowReaders(daemon, count);
  expect(first.growthBytes).toBeLessThan(MAX_FIRST_GROWTH_BYTES);
  let beyondMs = Number.POSITIVE_INFINITY;
  for (let round = 0; round < MAX_ROUNDS && beyondMs > 0; round += 1) {
    const { beforeMs, duringMs, growthBytes, isCut } = await measureSlowReaders(daemon, count);
    expect(growthBytes).toBeLessThan(MAX_GROWTH_BYTES);
    const allowedMs = Math.max(MAX_ADDED_MS, MAX_ADDED_SHARE * beforeMs);
    if (!isCut) beyondMs = Math.min(beyondMs, duringMs - beforeMs - allowedMs);
  }
  expect(beyondMs).toBeLessThanOrEqual(0);
});

test("R9 who stopped reading gets what came before, and then the reason why no more", async () => {
  await using daemon = await startTestDaemon({ useBinaryFormat: true });
  const command = { cmd: "sh", args: ["-c", "read go; exec head -c 20000000 /dev/zero"] };
  const stream = daemon.processes.start({ process: command, tag: "producer" });
  const events = stream[Symbol.asyncIterator]();
  await events.next();
  const stopped = joinWithoutReading(daemon);
  await once(stopped, "readable");
  const process = { selector: { case: "tag", value: "producer" } } as const;
  const input = { input: { case: "stdin", value: Buffer.from("go\n") } } as const;
  await daemon.processes.sendInput({ process, input });
  let bytes = 0;
  for await (const { event } of { [Symbol.asyncIterator]: () => events }) {
    if (event?.event.case === "data") bytes += event.event.value.output.value?.length ?? 0;
  }
  expect(bytes).toBe(20_000_000);
  const envelopes = readEnvelopes(unchunked(await buffer(stopped.resume())));
  expect(envelopes.length).toBeGreaterThan(2);
  expect([envelopes[0]?.flags, envelopes.at(-1)]).toEqual([
    0,
    {
      flags: 2,
      json: {
        error: {
          code: "resource_exhausted",
          message: "reader does not keep up with the output",
        },
      },
    },
  ]);
});

/** The body of a chunked reply. */
function unchunked(reply: Buffer): Buffer {
  const chunks: Buffer[] = [];
  for (let at = reply.indexOf("\r\n\r\n") + 4; at < reply.length;) {
    const lineEnd = reply.indexOf("\r\n", at);
    const size = Number.parseInt(reply.toString("latin1", at, lineEnd), 16);
    chunks.push(reply.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 4 + size;
  }
  return Buffer.concat(chunks);
}
