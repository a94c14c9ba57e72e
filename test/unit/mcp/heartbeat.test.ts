/** The heartbeat of a call: in silence only, with rising numbers, and none after its end. */

import { expect, test } from "vitest";
import { startHeartbeat } from "../../../src/mcp/replies/heartbeat.ts";
import { Progress } from "../../../src/mcp/replies/progress.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

function startCall() {
  const clock = createFakeClock();
  const sent: (readonly [number, string])[] = [];
  const send = async (progress: number, message: string) => void sent.push([progress, message]);
  const { signal } = new AbortController();
  return { clock, sent, signal, heartbeat: startHeartbeat({ send, clock, signal }) };
}

test("a call that tells nothing is told of every ten seconds", async () => {
  const { clock, sent, heartbeat } = startCall();
  await using _ = heartbeat;
  await clock.advance(25_000);
  expect(sent).toEqual([
    [0, "still running"],
    [1, "still running"],
  ]);
});

test("a silent process is told of every ten seconds, with rising numbers", async () => {
  const { clock, sent, signal, heartbeat } = startCall();
  await using call = heartbeat;
  await using progress = new Progress({ send: call.send, clock, signal });
  progress.started(7);
  await clock.advance(25_000);
  progress.output("stdout", Buffer.from("x\n"));
  await clock.advance(1_000);
  progress.output("stdout", Buffer.from("much more\n"));
  await clock.advance(1_000);
  expect(sent).toEqual([
    [0, "started pid 7"],
    [1, "still running"],
    [2, "still running"],
    [3, "output: x"],
    [12, "output: much more"],
  ]);
});

test("a wall clock that is set back delays nothing", async () => {
  const { clock, sent, heartbeat } = startCall();
  await using _ = heartbeat;
  clock.set(clock.now() - 3_600_000);
  await clock.advance(10_000);
  expect(sent).toEqual([[0, "still running"]]);
});

test("nothing is sent after the end", async () => {
  const { clock, sent, heartbeat } = startCall();
  await heartbeat[Symbol.asyncDispose]();
  await heartbeat.send?.(1, "late");
  await clock.advance(60_000);
  expect(sent).toEqual([]);
});

test("a host that takes nothing gets no further heartbeat", async () => {
  const clock = createFakeClock();
  const { promise: never } = Promise.withResolvers<void>();
  const sent: string[] = [];
  const send = (_: number, message: string) => {
    sent.push(message);
    return never;
  };
  const { signal } = new AbortController();
  await using _ = startHeartbeat({ send, clock, signal });
  await clock.advance(60_000);
  expect(sent).toEqual(["still running"]);
});
