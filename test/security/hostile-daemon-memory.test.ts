/** What a replaced daemon says of its processes and files is kept for long, but never much of it. */

import type { ServerResponse } from "node:http";
import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { type ProcessEventSchema, StartResponseSchema } from "../../src/gen/process/process_pb.ts";
import { encodeEnvelope, END_STREAM_FLAG } from "../../src/rpc/envelope.ts";
import { heldBytes } from "../support/collect-now.ts";
import { startHostileHost, type DaemonAnswer } from "../support/hostile/hostile-host.ts";
import { answerJson } from "../support/network/recorder.ts";

const MEGABYTE = 1_000_000;
/** What all calls together may leave, a third of what they bring at least. */
const MAX_GROWTH = 10 * MEGABYTE;
const CALLS = 40;

type Event = NonNullable<MessageInitShape<typeof ProcessEventSchema>["event"]>;

function messageOf(event: Event): Uint8Array {
  return toBinary(StartResponseSchema, create(StartResponseSchema, { event: { event } }));
}

/** A process with a number of its own, and then this. */
function startAnd(rest: readonly Uint8Array[]): DaemonAnswer {
  let pid = 100;
  return (path, response) => {
    if (!path.endsWith("/Start")) return answerJson(response, 404, { body: { code: "not_found" } });
    pid += 1;
    response.writeHead(200, { "content-type": "application/connect+proto" });
    response.write(encodeEnvelope(messageOf({ case: "start", value: { pid } })));
    return void response.end(Buffer.concat(rest));
  };
}

const ENDED = messageOf({
  case: "end",
  value: { exitCode: 0, exited: true, status: "x".repeat(1_000_000) },
});
const DETAILS = Array.from({ length: 19_000 }, () => ({ type: "a", value: "aaaa" }));
const ERROR = { error: { code: "unavailable", message: "gone", details: DETAILS } };
const RUN = { tool: "run_process", first: { cmd: "true" }, input: { cmd: "true" } };
const NAMES = Array.from({ length: 15 }, (_, index) => ({
  name: `${index}${"x".repeat(520_000)}`,
  type: "EVENT_TYPE_CREATE",
}));

function watched(path: string, response: ServerResponse): void {
  const body = path.endsWith("/CreateWatcher") ? { watcherId: "w1" } : { events: NAMES };
  answerJson(response, 200, { body });
}

test.for([
  {
    what: "how a process ended",
    ...RUN,
    answer: startAnd([encodeEnvelope(ENDED), encodeEnvelope("{}", END_STREAM_FLAG)]),
  },
  {
    what: "why a stream broke",
    ...RUN,
    answer: startAnd([encodeEnvelope(JSON.stringify(ERROR), END_STREAM_FLAG)]),
  },
  {
    what: "what changed in a directory",
    tool: "watch_path",
    first: { path: "/", wait_seconds: 0 },
    input: { watcher_id: "w1", wait_seconds: 0 },
    answer: watched,
  },
])("E41 of $what a server keeps little", async ({ tool, first, input, answer }) => {
  await using host = await startHostileHost();
  host.answer(answer);
  await host.call(tool, first);
  const before = heldBytes();
  for (let count = 0; count < CALLS; count += 1) await host.call(tool, input);
  const grown = () => heldBytes() - before;
  await expect.poll(grown, { timeout: 20_000, interval: 200 }).toBeLessThan(MAX_GROWTH);
});
