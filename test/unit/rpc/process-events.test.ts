/** Output put together by hand is what the library would have made of it. */

import { create, fromBinary, fromJsonString, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { StartResponseSchema } from "../../../src/gen/process/process_pb.ts";
import { encodeEnvelope } from "../../../src/rpc/envelope.ts";
import {
  encodeEvent,
  encodeOutput,
  readEvents,
  type Codec,
} from "../../../src/rpc/process-events.ts";
import { countTurns } from "../../support/turns.ts";

const SIZES = [1, 2, 3, 126, 127, 128, 129, 16_383, 16_384, 16_385, 32_768, 32_769, 65_536, 70_001];
const NAMES = ["stdout", "stderr", "pty"] as const;
const CODECS = ["json", "binary"] as const;

/** The messages in a run of envelopes, none of which has a flag. */
function messagesIn(frames: Buffer, codec: Codec) {
  const messages = [];
  for (let at = 0; at < frames.length;) {
    const length = frames.readUInt32BE(at + 1);
    expect(frames[at]).toBe(0);
    const body = frames.subarray(at + 5, at + 5 + length);
    messages.push(
      codec === "json"
        ? fromJsonString(StartResponseSchema, body.toString("utf8"))
        : fromBinary(StartResponseSchema, body),
    );
    at += 5 + length;
  }
  return messages;
}

test.for(NAMES.flatMap((name) => CODECS.map((codec) => ({ name, codec }))))(
  "$name in $codec comes back in pieces of the size that the wire allows",
  ({ name, codec }) => {
    const maxBytes = name === "pty" ? 16_384 : 32_768;
    for (const size of SIZES) {
      const bytes = Buffer.from(
        Array.from({ length: size }, (_, index) => (index * 7 + size) % 256),
      );
      const chunks = messagesIn(encodeOutput(name, bytes, codec), codec).map((message) => {
        const event = message.event?.event;
        const output = event?.case === "data" ? event.value.output : undefined;
        expect(output?.case).toBe(name);
        return Buffer.from(output?.value ?? []);
      });
      expect(chunks.map((chunk) => chunk.length <= maxBytes)).not.toContain(false);
      expect(chunks.length).toBe(Math.ceil(size / maxBytes));
      expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
    }
  },
);

test.for(CODECS)("no piece in %s ends inside a character where another follows", (codec) => {
  const bytes = Buffer.from(`a${"\u{1f642}".repeat(20_000)}`);
  const texts = messagesIn(encodeOutput("stdout", bytes, codec), codec).map((message) => {
    const event = message.event?.event;
    return Buffer.from((event?.case === "data" && event.value.output.value) || []).toString();
  });
  expect(texts.join("") === bytes.toString()).toBe(true);
});

test("the binary form is byte for byte the library's", () => {
  const bytes = Buffer.alloc(300, "x");
  const output = { case: "stderr", value: bytes } as const;
  const event = { event: { case: "data", value: { output } } } as const;
  const whole = toBinary(StartResponseSchema, create(StartResponseSchema, { event }));
  const head = Buffer.from([0, 0, 0, whole.length >> 8, whole.length & 255]);
  const expected = Buffer.concat([head, whole]);
  expect(encodeOutput("stderr", bytes, "binary").equals(expected)).toBe(true);
  expect(encodeEvent(event, "binary").equals(expected)).toBe(true);
});

test("an end in JSON leaves out what is as always, and keeps what is set", () => {
  const outcome = { exitCode: 0, exited: true, status: "exit status 0" };
  const envelope = encodeEvent({ event: { case: "end", value: outcome } }, "json");
  expect(envelope.toString("utf8", 5)).toBe(
    '{"event":{"end":{"exited":true,"status":"exit status 0"}}}',
  );
});

const FLOOD_MS = 300;

/** Small events that are always there, until the time is over. */
async function* flood(): AsyncGenerator<Uint8Array, void> {
  const endAtMs = performance.now() + FLOOD_MS;
  const events = Buffer.concat(Array.from({ length: 1_000 }, () => encodeEnvelope("")));
  while (performance.now() < endAtMs) yield events;
  yield encodeEnvelope("{}", 2);
}

test("a flood of small events leaves others their turns", async () => {
  using turns = countTurns();
  let events = 0;
  for await (const _ of readEvents(flood(), {})) events += 1;
  expect(events).toBeGreaterThan(0);
  expect(turns.count()).toBeGreaterThan(2);
});
